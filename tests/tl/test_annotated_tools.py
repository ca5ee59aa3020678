"""`partwise.tl` and `partwise.pl` on real AnnData and MuData objects, in memory, backed and lazy."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import partwise
from partwise import PoissonNMF
from partwise.datasets import simulate_batches
from partwise.errors import FeatureMatchWarning, InvalidInputError

anndata = pytest.importorskip("anndata")
pd = pytest.importorskip("pandas")

DATA = simulate_batches(150, 40, n_groups=3, n_shared=1, n_batches=3, mean_total=200.0, random_state=0)


def cells() -> Any:
    """Log-normalised X, raw counts in a layer, batches and groups in obs, an embedding in obsm."""
    counts = sp.csr_matrix(DATA.table.matrix).astype(np.float32)
    adata = anndata.AnnData(
        counts.log1p(),
        obs=pd.DataFrame({n: pd.Categorical(v) for n, v in DATA.table.metadata.items()}, index=DATA.table.row_labels),
        var=pd.DataFrame(index=DATA.table.column_labels),
        layers={"counts": counts},
    )
    adata.obsm["X_umap"] = np.random.default_rng(0).normal(size=(150, 2))
    return adata


@pytest.fixture(scope="module")
def fitted() -> Any:
    adata = cells()
    assert partwise.tl.fit(adata, 4, layer="counts", batch_key="batch", random_state=0) is None
    partwise.tl.markers(adata)
    return adata


def test_fit_is_that_of_the_model(fitted: Any) -> None:
    model = PoissonNMF(4, random_state=0)
    activations = model.fit_transform(cells(), batch="batch", layer="counts")
    np.testing.assert_array_equal(fitted.obsm["X_partwise"], activations)
    np.testing.assert_array_equal(fitted.varm["partwise"], model.components_.T)
    entry = fitted.uns["partwise"]
    assert entry["params"] == {"n_components": 4, "layer": "counts", "batch_key": "batch", "random_state": 0}
    assert entry["parts"].tolist() == model.part_labels() == model.get_feature_names_out().tolist()
    np.testing.assert_array_equal(partwise.tl.stored_model(fitted).batch_factors_, model.batch_factors_)


def test_markers(fitted: Any) -> None:
    model = partwise.tl.stored_model(fitted)
    expected = model.differential(DATA.table, batch="batch")
    np.testing.assert_array_equal(fitted.varm["partwise_lfsr"], expected.lfsr.T)
    assert list(fitted.uns["partwise"]["markers"]) == model.part_labels()
    assert fitted.uns["partwise"]["markers"]["part 0"].tolist() == expected.top(0, 50)


def test_files_keep_everything(fitted: Any, tmp_path: Path) -> None:
    fitted.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    model = partwise.tl.stored_model(again)
    np.testing.assert_array_equal(model.components_, partwise.tl.stored_model(fitted).components_)
    partwise.pl.structure(again, "group")


def test_several_models_and_copies() -> None:
    adata = cells()
    copied = partwise.tl.fit(
        adata, 3, layer="counts", model="gamma-poisson", key_added="gap", random_state=0, copy=True
    )
    assert "gap" not in adata.uns
    partwise.tl.fit(copied, 2, layer="counts", key_added="small", random_state=0)
    assert copied.obsm["X_gap"].shape == (150, 3)
    assert copied.obsm["X_small"].shape == (150, 2)
    assert type(partwise.tl.stored_model(copied, key="gap")).__name__ == "GammaPoissonNMF"


def test_consensus() -> None:
    adata = cells()
    partwise.tl.consensus(adata, 4, n_restarts=3, layer="counts", batch_key="batch", random_state=0, tol=1e-4)
    assert adata.uns["consensus"]["members"].sum() <= 12
    assert adata.varm["consensus_lower"].shape == (40, 4)
    assert 0 < adata.uns["consensus"]["stability"] <= 1


def test_project(fitted: Any) -> None:
    new = cells()[:30].copy()
    partwise.tl.project(new, fitted, layer="counts", batch_key="batch", key_added="from_atlas")
    np.testing.assert_array_equal(new.obsm["X_from_atlas"], fitted.obsm["X_partwise"][:30])


def test_other_genes_in_another_order(fitted: Any) -> None:
    new = cells()[:60, ::-1].copy()
    new.var_names = [*new.var_names[:-1], "unknown"]
    with pytest.warns(FeatureMatchWarning, match="39 of the 40"):
        partwise.tl.project(new, fitted, layer="counts", batch_key="batch")
    np.testing.assert_array_equal(new.varm["partwise"][:-1], fitted.varm["partwise"][:0:-1])
    assert np.isnan(new.varm["partwise"][-1]).all()
    with pytest.warns(FeatureMatchWarning):
        partwise.tl.markers(new)
    best = new.uns["partwise"]["markers"]["part 0"][0]
    assert new.varm["partwise_lfsr"][new.var_names.get_loc(best), 0] <= 0.05
    assert new.varm["partwise_lfsr"][-1].tolist() == [1.0] * 4


def test_project_matches_genes_by_name(fitted: Any) -> None:
    new = cells()[:30, ::-2].copy()
    new.var_names = [*new.var_names[:-1], "unknown"]
    with pytest.warns(FeatureMatchWarning):
        partwise.tl.project(new, fitted, layer="counts", batch_key="batch")
    found = pd.DataFrame(new.varm["partwise"], index=new.var_names)
    expected = pd.DataFrame(fitted.varm["partwise"], index=fitted.var_names)
    pd.testing.assert_frame_equal(found.iloc[:-1], expected.loc[new.var_names[:-1]])
    assert found.iloc[-1].isna().all()


def test_backed_and_lazy(tmp_path: Path) -> None:
    cells().write_h5ad(tmp_path / "cells.h5ad")
    expected = PoissonNMF(3, random_state=0).fit(cells(), layer="counts", batch="batch")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    found = PoissonNMF(3, random_state=0).fit(backed, layer="counts", batch="batch")
    np.testing.assert_array_equal(found.components_, expected.components_)
    np.testing.assert_array_equal(found.batch_factors_, expected.batch_factors_)
    copied = partwise.tl.fit(backed, 3, layer="counts", batch_key="batch", random_state=0, copy=True)
    np.testing.assert_array_equal(copied.varm["partwise"], expected.components_.T)
    backed.file.close()


def test_chunks_of_dask() -> None:
    array = pytest.importorskip("dask.array")
    adata = cells()
    adata.layers["counts"] = array.from_array(adata.layers["counts"].toarray(), chunks=(50, 40)).map_blocks(
        sp.csr_matrix
    )
    found = PoissonNMF(3, random_state=0).fit(adata, layer="counts", batch="batch")
    expected = PoissonNMF(3, random_state=0).fit(cells(), layer="counts", batch="batch")
    np.testing.assert_array_equal(found.components_, expected.components_)


def test_lazy(tmp_path: Path) -> None:
    pytest.importorskip("xarray", reason="AnnData's lazy reader needs it")
    adata = cells()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the version of the format
        adata.write_zarr(tmp_path / "cells.zarr")
    lazy = anndata.experimental.read_lazy(tmp_path / "cells.zarr")
    found = PoissonNMF(3, random_state=0).fit(lazy, layer="counts", batch="batch")
    expected = PoissonNMF(3, random_state=0).fit(adata, layer="counts", batch="batch")
    np.testing.assert_array_equal(found.components_, expected.components_)
    partwise.tl.fit(lazy, 3, layer="counts", batch_key="batch", random_state=0)
    np.testing.assert_array_equal(lazy.varm["partwise"], expected.components_.T)


def test_batches_that_are_not_used_are_noticed() -> None:
    data = simulate_batches(300, 80, n_groups=3, n_shared=1, n_batches=3, effect=1.2, random_state=0)
    adata = anndata.AnnData(
        sp.csr_matrix(data.table.matrix).astype(np.float32),
        obs=pd.DataFrame({"batch": pd.Categorical(data.table.metadata["batch"])}, index=data.table.row_labels),
    )
    model = PoissonNMF(6, random_state=0).fit(adata)
    assert "is mostly batch batch" in model.status_.message


def test_mudata() -> None:
    mudata = pytest.importorskip("mudata")
    mudata.set_options(pull_on_update=False)
    other = cells()[:, :10].copy()
    other.var_names = [f"protein{f}" for f in range(10)]
    whole = mudata.MuData({"rna": cells(), "other": other})
    partwise.tl.fit(whole, 3, mod="rna", layer="counts", batch_key="batch", random_state=0)
    partwise.tl.markers(whole, mod="rna")
    assert whole.mod["rna"].obsm["X_partwise"].shape == (150, 3)
    assert "partwise" not in whole.mod["other"].uns
    partwise.pl.structure(whole, "group", mod="rna")
    with pytest.raises(InvalidInputError, match="a MuData object needs mod: give one of 'rna'"):
        partwise.tl.fit(whole, 3)
    with pytest.raises(InvalidInputError, match=r"X is a MuData object: pass one of its modalities .'rna', 'other'"):
        PoissonNMF(3).fit(whole)


def test_pictures(fitted: Any) -> None:
    assert partwise.pl.structure(fitted, "group", order="cluster").get_ylabel() == "share of a sample"
    assert len(partwise.pl.markers(fitted, parts=[0, 2]).axes) == 2  # type: ignore[attr-defined]
    assert partwise.pl.usage(fitted, parts=[0, 1]).axes[0].get_title(loc="left") == "part 0"  # type: ignore[attr-defined]
    named = partwise.pl.usage(fitted, basis="umap", parts=["part 2"])  # as scanpy names embeddings
    assert named.axes[0].get_title(loc="left") == "part 2"  # type: ignore[attr-defined]
    assert partwise.pl.markers(fitted, parts=["part 1"]).axes[0].get_title(loc="left") == "part 1"  # type: ignore[attr-defined]


def twice() -> Any:
    adata = cells()
    adata.var_names = ["same", *adata.var_names[1:-1], "same"]
    return adata


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
def test_estimators_warn_of_names_that_are_there_twice() -> None:
    with pytest.warns(FeatureMatchWarning, match="2 features of X are called"):
        PoissonNMF(2, random_state=0).fit(twice(), layer="counts")


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: partwise.tl.fit(twice(), 2, layer="counts"),
            "2 variables are called 'same': call var_names",
        ),
        (lambda: partwise.tl.fit(cells(), 2, model="nmf"), r"no model called 'nmf' is registered .there are poisson, "),
        (lambda: partwise.tl.fit(cells(), 2, layer="raw"), "layer='raw' is not in the AnnData object"),
        (lambda: partwise.tl.fit(cells(), 2, layer="counts", batch_key="x"), "batch_key='x' is not an obs column"),
        (lambda: partwise.tl.fit(cells(), 2, mod="rna"), "mod='rna' is for MuData objects"),
        (lambda: partwise.tl.fit(np.ones((3, 3)), 2), "an AnnData object is needed, got ndarray"),
        (lambda: partwise.tl.markers(cells()), "there is no model under key='partwise': run partwise.tl.fit first"),
        (lambda: partwise.pl.usage(cells()), "there is no model under key"),
        (lambda: partwise.tl.fit(cells(), 2, model=PoissonNMF(2), tol=1), "tol was given beside an estimator"),
    ],
)
def test_mistakes(call: Any, sentence: str) -> None:
    with pytest.raises(InvalidInputError, match=sentence):
        call()
