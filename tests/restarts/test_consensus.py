"""Consensus of restarts: planted clusters, outliers, bands, tables, and the same stability as comparisons use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import silhouette_samples

import partwise
from partwise import EmpiricalBayesPoissonNMF, GammaPoissonNMF, PoissonNMF
from partwise.datasets import simulate_batches, simulate_poisson
from partwise.errors import InvalidInputError
from partwise.metrics.matching import unit_parts
from partwise.plotting import plot_clustergram, plot_stability
from partwise.restarts import Consensus, cluster_parts, consensus_by_rank, write_cnmf_tables
from partwise.selection import match_parts, stability

DATA = simulate_poisson(150, 40, 4, random_state=0)


@pytest.fixture(scope="module")
def found() -> Consensus:
    return partwise.consensus(PoissonNMF(4, random_state=0), DATA.table, n_restarts=8)


def planted(rng: np.random.Generator, n_restarts: int = 10, noise: float = 0.05) -> tuple[list[np.ndarray], np.ndarray]:
    truth = rng.dirichlet(np.full(30, 0.2), size=4)
    return [
        rng.permutation(truth * np.exp(rng.normal(0.0, noise, truth.shape)), axis=0) for _ in range(n_restarts)
    ], truth


def test_planted_clusters_and_outliers() -> None:
    rng = np.random.default_rng(1)
    dictionaries, truth = planted(rng)
    for r in (2, 5):
        dictionaries[r][0] = rng.dirichlet(np.full(30, 0.05))  # a part that no other restart has
    clusters = cluster_parts(dictionaries, 4)
    assert np.flatnonzero(clusters.labels < 0).tolist() == [8, 20]
    assert clusters.densities[[8, 20]].min() > 0.5 > np.delete(clusters.densities, [8, 20]).max()
    np.testing.assert_allclose(match_parts(truth, clusters.centres)[2], 1.0, atol=1e-2)
    assert sorted(clusters.order()) == list(range(40))
    for restart in range(10):
        labels = clusters.labels[4 * restart : 4 * restart + 4]
        assert len(set(labels[labels >= 0])) == np.sum(labels >= 0), "one part of a restart in a cluster"
    kept = clusters.labels >= 0
    stacked = unit_parts(np.concatenate(dictionaries))[kept]
    expected = silhouette_samples(stacked, clusters.labels[kept])
    np.testing.assert_allclose(clusters.silhouettes[kept], expected, rtol=1e-6, atol=1e-7)


def test_distances_are_euclidean() -> None:
    dictionaries, _ = planted(np.random.default_rng(2), 3)
    clusters = cluster_parts(dictionaries, 4, density_threshold=2.0)
    unit = unit_parts(np.concatenate(dictionaries))
    expected = np.linalg.norm(unit[:, None] - unit[None], axis=2)
    np.testing.assert_allclose(clusters.distances, expected, atol=1e-7)


def test_what_restarts_agree_on(found: Consensus) -> None:
    assert found.members.tolist() == [8, 8, 8, 8]
    assert match_parts(DATA.dictionary.T, found.shares)[2].min() > 0.95
    assert np.all((found.lower <= found.upper) & (found.lower >= 0))
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0)
    assert np.mean((found.shares >= 0.95 * found.lower) & (found.shares <= 1.05 * found.upper + 1e-12)) > 0.95
    np.testing.assert_array_equal(found.activations, found.model.transform(DATA.table))
    assert "4 consensus parts of 8 restarts: stability" in str(found)


def test_stability_is_that_of_comparisons(found: Consensus) -> None:
    seeds = partwise.core.keys.key_from(0).for_stage("restarts").generator().integers(2**31, size=8)  # type: ignore[attr-defined]
    parts = []
    for seed in seeds:
        model = PoissonNMF(4, random_state=int(seed)).fit(DATA.table)
        parts.append(model.feature_importance()[model.active_components_])
    assert found.stability == pytest.approx(stability(parts), rel=1e-12)


def test_threads_do_not_matter(found: Consensus) -> None:
    again = partwise.consensus(PoissonNMF(4, random_state=0), DATA.table, n_restarts=8, n_jobs=3)
    np.testing.assert_array_equal(again.shares, found.shares)
    np.testing.assert_array_equal(again.activations, found.activations)


@pytest.mark.parametrize(
    "model", [GammaPoissonNMF(4, random_state=0), EmpiricalBayesPoissonNMF(4, random_state=0, tol=1e-4)]
)
def test_other_models(model: Any) -> None:
    found = partwise.consensus(model, DATA.table, n_restarts=3)
    expected = np.abs(found.activations @ found.model.components_ - DATA.activations @ DATA.dictionary.T).mean()
    assert expected < 0.5 * np.abs(DATA.activations @ DATA.dictionary.T).mean()
    assert found.model.n_components_ == found.n_components


def test_with_batches() -> None:
    data = simulate_batches(200, 60, n_groups=3, n_shared=1, n_batches=3, random_state=0)
    found = partwise.consensus(PoissonNMF(4, random_state=0), data.table, n_restarts=3, batch="batch")
    assert match_parts(data.dictionary.T, found.shares)[2].min() > 0.9
    assert found.model.batch_factors_.shape == (3, 60)
    np.testing.assert_array_equal(found.model.transform(data.table, batch="batch"), found.activations)


@pytest.mark.parametrize("kind", ["table", "anndata", "frame", "matrix", "on disk"])
def test_restarts_on_samples_of_the_rows(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import anndata
    import pandas as pd

    data = simulate_batches(300, 60, n_groups=3, n_shared=1, n_batches=3, random_state=0)
    labels, matrix = np.asarray(data.table.metadata["batch"]), data.table.matrix
    X, batch = {
        "table": lambda: (data.table, "batch"),
        "anndata": lambda: (anndata.AnnData(matrix, obs={"batch": labels}), "batch"),
        "frame": lambda: (pd.DataFrame(matrix.toarray()), labels),
        "matrix": lambda: (matrix, labels),
        "on disk": lambda: (partwise.on_disk(data.table, tmp_path / "rows"), labels),
    }[kind]()
    seen, fitted = [], PoissonNMF.fit

    def fit(self: PoissonNMF, X: Any, **given: Any) -> PoissonNMF:
        seen.append(np.asarray(partwise.as_table(X.to_table() if kind == "on disk" else X).matrix.sum(axis=1)).ravel())
        return fitted(self, X, **given)

    monkeypatch.setattr(PoissonNMF, "fit", fit)
    model = PoissonNMF(4, random_state=0, tol=1e-4)
    found = partwise.consensus(model, X, n_restarts=4, max_samples=150, batch=batch)
    totals = np.asarray(matrix.sum(axis=1)).ravel()
    assert [len(one) for one in seen] == [150] * 4
    assert len({tuple(one) for one in seen}) == 4, "each restart has other rows"
    assert all(np.isin(one, totals).all() for one in seen)
    assert match_parts(data.dictionary.T, found.shares)[2].min() > 0.9
    assert found.activations.shape == (300, 4)
    again = partwise.consensus(model, X, n_restarts=4, max_samples=150, batch=batch, n_jobs=2)
    np.testing.assert_array_equal(again.shares, found.shares)


def test_more_samples_than_there_are_means_all(found: Consensus) -> None:
    again = partwise.consensus(PoissonNMF(4, random_state=0), DATA.table, n_restarts=8, max_samples=150)
    np.testing.assert_array_equal(again.shares, found.shares)
    with pytest.raises(InvalidInputError, match="max_samples must be at least 2, got 1"):
        partwise.consensus(PoissonNMF(4), DATA.table, max_samples=1)


def test_tables_are_laid_out_as_those_of_cnmf(found: Consensus, tmp_path: Path) -> None:
    import pandas as pd

    files = write_cnmf_tables(found, tmp_path / "run", "run", samples=DATA.table.row_labels)
    assert [file.name for file in files] == [
        "run.usages.k_4.dt_0_5.consensus.txt",
        "run.spectra.k_4.dt_0_5.consensus.txt",
        "run.gene_spectra_tpm.k_4.dt_0_5.txt",
    ]
    usages, spectra, per_million = (pd.read_csv(file, sep="\t", index_col=0) for file in files)
    np.testing.assert_allclose(usages.to_numpy(), found.activations)
    assert usages.index[0] == "sample0"
    assert list(spectra.columns[:2]) == ["feature0", "feature1"]
    assert spectra.index.tolist() == [1, 2, 3, 4]
    np.testing.assert_allclose(per_million.sum(axis=1), 1e6)


def test_pictures(found: Consensus) -> None:
    figure = plot_clustergram(found)
    assert figure.axes[0].get_title(loc="left").startswith("8 restarts")
    several = consensus_by_rank(PoissonNMF(random_state=0, tol=1e-4), DATA.table, [2, 4], n_restarts=3)
    assert [one.n_components for one in several] == [2, 4]
    lines = plot_stability(several).lines
    np.testing.assert_allclose(lines[0].get_ydata(), [one.stability for one in several])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_restarts": 1}, "n_restarts must be at least 2"),
        ({"n_restarts": 2, "density_threshold": -1.0}, "only 0 of 8 parts of the restarts are near others"),
    ],
)
def test_mistakes(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInputError, match=sentence):
        partwise.consensus(PoissonNMF(4, random_state=0, tol=1e-3), DATA.table, **options)
