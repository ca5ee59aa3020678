"""What all estimators share, seen through PoissonNMF: columns and names, activity, the end of a run, inverses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from partwise import Checkpoint, PoissonNMF, Table
from partwise.contract.model_file import fitted_attributes
from partwise.errors import EmptyRowsWarning, InvalidInputError

NAMES = np.array([f"f{number}" for number in range(25)])


@pytest.fixture
def named(small_counts: np.ndarray) -> PoissonNMF:
    return PoissonNMF(3, random_state=0, max_iter=15, tol=0.0).fit(Table(small_counts, column_labels=NAMES))


@pytest.fixture
def nameless(small_counts: np.ndarray) -> PoissonNMF:
    return PoissonNMF(3, random_state=0, max_iter=15, tol=0.0).fit(small_counts)


class TestColumns:
    def test_names_of_every_kind_of_data(self, small_counts: np.ndarray) -> None:
        pd, pl, anndata = (pytest.importorskip(name) for name in ("pandas", "polars", "anndata"))
        adata = anndata.AnnData(small_counts.astype(np.float32))
        adata.var_names = NAMES
        kinds = [
            Table(small_counts, column_labels=NAMES),
            Table(sp.csr_array(small_counts), column_labels=NAMES),
            pd.DataFrame(small_counts, columns=NAMES),
            pl.DataFrame(small_counts, schema=NAMES.tolist()),
            adata,
        ]
        models = [PoissonNMF(2, random_state=0, max_iter=3, tol=0.0).fit(X) for X in kinds]
        for model in models:
            assert model.n_features_in_ == 25
            assert model.feature_names_in_.dtype == object
            assert model.feature_names_in_.tolist() == NAMES.tolist()
            for X in kinds:  # any of them fits to any other
                np.testing.assert_array_equal(model.transform(X), models[0].transform(kinds[0]))

    def test_batches_of_another_order_are_refused(self, named: PoissonNMF, small_counts: np.ndarray) -> None:
        pd = pytest.importorskip("pandas")
        swapped = NAMES[[0, 2, 1, *range(3, 25)]]
        with pytest.raises(
            InvalidInputError, match=r"^Column 1 of X is 'f2', but PoissonNMF was fitted with 'f1' there: bring"
        ):
            named.partial_fit(Table(small_counts, column_labels=swapped))
        with pytest.raises(ValueError, match="feature names should match"):
            named.partial_fit(pd.DataFrame(small_counts, columns=swapped))

    def test_names_given_twice_are_refused(self, small_counts: np.ndarray) -> None:
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(small_counts, columns=[*NAMES[:24], "f3"])
        with pytest.raises(InvalidInputError, match=r"^2 columns of X are called 'f3': give each feature a dif"):
            PoissonNMF(2).fit(frame)

    def test_other_number_is_refused(self, named: PoissonNMF, nameless: PoissonNMF, small_counts: np.ndarray) -> None:
        message = "X has 24 features, but PoissonNMF is expecting 25 features"
        for X in (small_counts[:, :24], sp.csr_array(small_counts[:, :24])):
            with pytest.raises(ValueError, match=message):
                nameless.transform(X)
        with pytest.raises(InvalidInputError, match=message):
            named.partial_fit(Table(small_counts[:, :24], column_labels=NAMES[:24]))

    def test_names_on_one_side_only(self, named: PoissonNMF, nameless: PoissonNMF, small_counts: np.ndarray) -> None:
        with pytest.warns(UserWarning, match="X does not have valid feature names, but PoissonNMF was fitted with"):
            named.transform(small_counts)
        nameless.transform(Table(small_counts, column_labels=NAMES))  # a table has names whether they matter or not

    def test_a_new_fit_forgets_the_names(self, named: PoissonNMF, small_counts: np.ndarray) -> None:
        named.fit(small_counts[:, :7])
        assert named.n_features_in_ == 7
        assert not hasattr(named, "feature_names_in_")

    def test_transform_needs_a_fit(self, small_counts: np.ndarray) -> None:
        for method in ("transform", "inverse_transform", "score", "activation_errors", "completion"):
            with pytest.raises(NotFittedError):
                getattr(PoissonNMF(2), method)(small_counts)


class TestActivity:
    def test_parts_that_hold_little_are_not_active(self) -> None:
        X = np.zeros((30, 6))
        X[:, :3], X[:29, 3:5], X[29, 5] = 100, 100, 1
        init = np.zeros((30, 3)), np.kron(np.eye(3), [1.0, 1.0])[:, [0, 1, 1, 2, 3, 5]]
        init[0][:] = X[:, [0, 3, 5]]
        model = PoissonNMF(3, init=(init[0] + 1e-3, init[1] + 1e-6), tol=1e-9).fit(X)
        assert model.n_components_ == 3
        shares = model.mean_activations_ / model.mean_activations_.sum()
        assert model.active_components_.tolist() == np.flatnonzero(shares >= 0.01).tolist()
        assert model.n_active_components_ == len(model.active_components_) < 3
        everything = PoissonNMF(3, init=(init[0] + 1e-3, init[1] + 1e-6), tol=1e-9, active_threshold=0.0).fit(X)
        assert everything.n_active_components_ == 3

    def test_default_threshold_shrinks_with_many_parts(self, small_counts: np.ndarray) -> None:
        model = PoissonNMF(20, random_state=0, max_iter=30, tol=0.0).fit(small_counts)
        shares = model.mean_activations_ / model.mean_activations_.sum()
        assert model.active_components_.tolist() == np.flatnonzero(shares >= 0.005).tolist()


class TestEndOfARun:
    def test_without_convergence_there_is_a_warning(self, small_counts: np.ndarray) -> None:
        with pytest.warns(ConvergenceWarning, match="Did not converge after 13 iterations: raise max_iter"):
            model = PoissonNMF(3, random_state=0, max_iter=13, tol=1e-12).fit(small_counts)
        assert model.status_.code == "max_iter"
        assert not model.status_.converged
        PoissonNMF(3, random_state=0, max_iter=13, tol=0.0).fit(small_counts)  # no warning: they were asked for

    def test_callbacks_can_stop(self, small_counts: np.ndarray) -> None:
        seen: list[int] = []

        def stop(iteration: int, state: Any, trace: Any) -> bool:
            seen.append(iteration)
            return iteration == 4

        model = PoissonNMF(3, random_state=0, callbacks=[stop]).fit(small_counts)
        assert seen == [1, 2, 3, 4]
        assert model.n_iter_ == len(model.trace_) == 4
        assert model.status_.code == "stopped"

    @pytest.mark.parametrize("wrap", [str, Path, lambda path: Checkpoint(path, iterations=2)])
    def test_checkpoints_by_name(self, wrap: Any, small_counts: np.ndarray, tmp_path: Path) -> None:
        path = tmp_path / "c"
        PoissonNMF(3, random_state=0, max_iter=5, tol=0.0, checkpoint=wrap(path)).fit(small_counts)
        assert path.exists()
        # Without resume, the file is replaced.
        model = PoissonNMF(3, random_state=1, max_iter=7, tol=0.0, checkpoint=wrap(path)).fit(small_counts)
        assert model.n_iter_ == 7

    def test_resume_needs_the_name_of_a_checkpoint(self, small_counts: np.ndarray) -> None:
        with pytest.raises(InvalidInputError, match="needs a checkpoint to continue from: pass checkpoint="):
            PoissonNMF(3, resume=True).fit(small_counts)

    def test_resume_without_a_file_starts(self, small_counts: np.ndarray, tmp_path: Path) -> None:
        where = str(tmp_path / "c")
        model = PoissonNMF(3, random_state=0, max_iter=5, tol=0.0, checkpoint=where, resume=True).fit(small_counts)
        assert model.n_iter_ == 5

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"n_jobs": 0}, "n_jobs must be a number of threads"),
            ({"engine": "cluster"}, "engine must be None, 'local', 'dask'"),
            ({"n_components": 0}, "n_components"),
            ({"tol": -1.0}, "tol"),
            ({"inference": "magic"}, "inference"),
            ({"init": "best"}, "init"),
            ({"max_iter": 1.5}, "max_iter"),
            ({"active_threshold": 2.0}, "active_threshold"),
            ({"random_state": -3}, "random_state"),
            ({"callbacks": None}, "callbacks"),
        ],
    )
    def test_refused_parameters(self, arguments: dict[str, Any], message: str, small_counts: np.ndarray) -> None:
        with pytest.raises(ValueError, match=message):
            PoissonNMF(**arguments).fit(small_counts)


class TestInverse:
    def test_product(self, nameless: PoissonNMF, rng: np.random.Generator) -> None:
        activations = rng.gamma(1.0, size=(4, 3))
        np.testing.assert_array_equal(nameless.inverse_transform(activations), activations @ nameless.components_)
        assert nameless.inverse_transform(activations.tolist()).shape == (4, 25)

    def test_refusals(self, nameless: PoissonNMF) -> None:
        with pytest.raises(InvalidInputError, match="X has 4 columns, but there are 3 parts: pass what transform"):
            nameless.inverse_transform(np.ones((2, 4)))
        with pytest.raises(ValueError, match="NaN"):
            nameless.inverse_transform(np.full((2, 3), np.nan))


def test_fitted_attributes_are_annotated(small_counts: np.ndarray) -> None:
    """A model file holds annotated attributes only: a file with any other would be refused."""
    model = PoissonNMF(2, random_state=0, max_iter=3, tol=0.0).fit(Table(small_counts, column_labels=NAMES))
    model.partial_fit(Table(small_counts, column_labels=NAMES))
    assert {attribute for attribute in vars(model) if attribute.endswith("_")} <= fitted_attributes(PoissonNMF)


@pytest.mark.filterwarnings("error")
def test_samples_without_counts_are_named() -> None:
    X = np.array([[3, 0, 1], [2, 5, 0], [0, 0, 0], [0, 0, 0]])
    model = PoissonNMF(2, random_state=0, max_iter=50, tol=1e-2).fit(X[:2])
    with pytest.warns(EmptyRowsWarning, match=r"Row 2 of X and 1 more have no counts"):
        assert not model.transform(X)[2:].any()
    with pytest.warns(EmptyRowsWarning, match=r"Row 0 of X has no counts"):
        model.transform(X[3:])
    model.transform(X[:2])
