"""BinaryNMF as a user meets it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from binary_samples import cells_of, planted
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import partwise
from partwise import BinaryNMF, Table
from partwise.binary.inference.starts import start_labels
from partwise.binary.kernels.cells import to_row_order
from partwise.binary.model import KINDS, BinaryModel
from partwise.core.keys import Key
from partwise.core.stopping import StopFit
from partwise.errors import FileFormatError, InvalidInputError

SHORT: dict[str, Any] = {
    "n_chains": 2,
    "n_draws": 20,
    "burn_in": 30,
    "thin": 2,
    "max_iter": 30,
    "tol": 0.0,
    "random_state": 0,
}
CASES = [
    *((model, "gibbs") for model in ("beta-dir", "dir-beta", "dir-dir")),
    *((model, inference) for model in ("beta-dir", "dir-beta") for inference in ("gibbs-partial", "cvb0", "cvb")),
    *((model, inference) for model in ("beta-dir", "dir-beta", "dir-dir") for inference in ("vb", "em", "map")),
]


def short(n_components: int = 4, **changes: Any) -> BinaryNMF:
    return BinaryNMF(n_components, **{**SHORT, **changes})


def bits_of(model: BinaryNMF) -> list[bytes]:
    """Every number of a fit."""
    return [value.tobytes() for name, value in sorted(vars(model).items()) if isinstance(value, np.ndarray)]


@pytest.mark.parametrize(("model", "inference"), CASES)
class TestEveryFit:
    def test_predicts_what_was_hidden(self, model: str, inference: str) -> None:
        whole = planted(5, 60, 30, missing=0.0)
        train = whole.copy()
        train[np.random.default_rng(0).random(train.shape) < 0.2] = np.nan
        points = inference in ("em", "map")
        fitted = short(2 if points else 4, model=model, inference=inference).fit(train)
        hidden = np.isnan(train)
        # nine in ten cells are as their block has it, which a constant prediction gets right half of the time
        assert np.mean((fitted.predict_proba()[hidden] > 0.5) == whole[hidden]) > 0.8
        # the truth has an entropy of 0.33 nats a cell, a constant prediction 0.69; maximum likelihood grows too sure
        assert fitted.log_loss(whole) < (2.0 if points else 0.55)
        assert fitted.probabilities_.shape == whole.shape
        assert np.all((fitted.probabilities_ >= 0) & (fitted.probabilities_ <= 1))

    def test_factors_are_of_the_model(self, model: str, inference: str) -> None:
        X = planted(6)
        fitted = short(model=model, inference=inference).fit(X)
        assert fitted.components_.shape == (4, 25)
        assert fitted.activations_.shape == (40, 4)
        assert np.all((fitted.components_ >= 0) & (fitted.components_ <= 1 + 1e-12))
        if model != "dir-beta":
            np.testing.assert_allclose(fitted.components_.sum(axis=0), 1.0)
        if model != "beta-dir":
            np.testing.assert_allclose(fitted.activations_.sum(axis=1), 1.0)
        np.testing.assert_allclose(fitted.component_cells_.sum(), np.sum(~np.isnan(X)), rtol=1e-5)
        if not inference.startswith("gibbs"):
            np.testing.assert_allclose(fitted.probabilities_, fitted.activations_ @ fitted.components_, atol=1e-12)
        if inference in ("em", "map"):
            with pytest.raises(InvalidInputError, match="standard deviations"):
                fitted.predict_std()
        else:
            assert np.all(fitted.predict_std() > 0)
            assert np.all(fitted.components_std_ < 0.5)
            assert fitted.predict_std(cells=([3], [4]))[0] == fitted.probabilities_std_[3, 4]

    def test_hidden_values_change_no_bit(self, model: str, inference: str) -> None:
        X = planted(7)
        mask = np.isnan(X)
        fits = [
            short(model=model, inference=inference).fit(Table(np.where(mask, hidden, X), missing=sp.csr_array(mask)))
            for hidden in (0.0, 1.0, 17.0)
        ]
        fits.append(short(model=model, inference=inference).fit(X))
        assert all(bits_of(fit) == bits_of(fits[0]) for fit in fits)
        new = [fits[0].transform(Table(np.where(mask, hidden, X), missing=mask)) for hidden in (0.0, 1.0)]
        np.testing.assert_array_equal(*new)

    def test_threads_change_no_bit(self, model: str, inference: str) -> None:
        X = planted(8, 700, 60)
        fits = [
            short(model=model, inference=inference, n_jobs=n_jobs, burn_in=2, n_draws=3, max_iter=3).fit(X)
            for n_jobs in (1, 3)
        ]
        assert bits_of(fits[0]) == bits_of(fits[1])
        np.testing.assert_array_equal(*(fit.transform(X[:50]) for fit in fits))

    def test_sparse_is_dense(self, model: str, inference: str) -> None:
        X = planted(9, missing=0.0)
        dense, sparse = (short(model=model, inference=inference).fit(data) for data in (X, sp.csr_array(X)))
        assert bits_of(dense) == bits_of(sparse)

    def test_saved_is_loaded(self, model: str, inference: str, tmp_path: Any) -> None:
        fitted = short(model=model, inference=inference).fit(planted(10))
        loaded = partwise.load(fitted.save(tmp_path / "votes.partwise") and tmp_path / "votes.partwise")
        assert bits_of(loaded) == bits_of(fitted)
        np.testing.assert_array_equal(loaded.transform(planted(11)), fitted.transform(planted(11)))

    def test_resumed_is_uninterrupted(self, model: str, inference: str, tmp_path: Any) -> None:
        X, path = planted(12), tmp_path / "fit.checkpoint"

        def stop(iteration: int, state: Any, trace: Any) -> None:
            if iteration == 11:
                raise StopFit("enough")

        whole = short(model=model, inference=inference).fit(X)
        short(model=model, inference=inference, checkpoint=path, callbacks=(stop,)).fit(X)
        resumed = short(model=model, inference=inference, checkpoint=path, resume=True).fit(X)
        assert bits_of(resumed) == bits_of(whole)

    def test_rows_are_transformed_on_their_own(self, model: str, inference: str) -> None:
        X = planted(13, 80)
        fitted = short(model=model, inference=inference).fit(X[:40])
        together = fitted.transform(X)
        alone = np.concatenate([fitted.transform(row[None, :]) for row in X[:6]])
        np.testing.assert_array_equal(together[:6], alone)
        np.testing.assert_allclose(fitted.predict_proba(X), together @ fitted.components_)
        assert (-4.0 if inference in ("em", "map") else -0.6) < fitted.score(X[40:]) < -0.2


def test_spare_parts_empty_out() -> None:
    fitted = BinaryNMF(30, n_draws=50, burn_in=300, thin=2, random_state=0).fit(planted(20, 150, 60))
    assert fitted.n_active_components_ <= 6
    assert fitted.component_cells_[fitted.active_components_].min() >= 0.01 * fitted.component_cells_.sum()
    generous = clone(fitted).set_params(active_threshold=0.2).fit(planted(20, 150, 60))
    assert generous.n_active_components_ <= fitted.n_active_components_


def test_prediction_with_empty_rows_and_columns_is_the_prior() -> None:
    X = planted(21)
    X[3], X[:, 5] = np.nan, np.nan
    for model in ("beta-dir", "dir-beta", "dir-dir"):
        for inference in ("gibbs", "vb", "em"):
            fitted = short(model=model, inference=inference).fit(X)
            assert np.all(np.isfinite(fitted.probabilities_))
    for X in (np.zeros((4, 3)), np.ones((4, 3)), np.full((4, 3), np.nan)):
        for inference in ("gibbs", "cvb0", "vb", "em"):
            fitted = short(inference=inference).fit(X)
            assert np.all(np.isfinite(fitted.probabilities_))
            assert np.all(np.isfinite(fitted.transform(X)))


def test_chains_and_diagnostics() -> None:
    fitted = short(n_chains=3).fit(planted(22))
    found = fitted.diagnostics()
    assert list(found) == ["log_joint", "log_likelihood", "n_active", "missing_probability", "total_concentration"]
    assert "total_concentration" not in short(concentration=1.0).fit(planted(22)).diagnostics()
    assert found["log_likelihood"].r_hat > 0.9
    assert found["log_likelihood"].ess_bulk > 0
    assert found["log_joint"].mean == fitted.log_joint_draws_.mean()
    assert fitted.log_joint_draws_.shape == (3, 20)
    assert "missing_probability" not in short().fit(planted(22, missing=0.0)).diagnostics()
    with pytest.raises(InvalidInputError, match="no chains"):
        short(inference="vb").fit(planted(22)).diagnostics()


def test_chains_are_averages_of_their_own() -> None:
    X = planted(23)
    one, two = (short(n_chains=n).fit(X) for n in (1, 2))
    np.testing.assert_array_equal(two.log_joint_draws_[0], one.log_joint_draws_[0])
    assert not np.array_equal(two.log_joint_draws_[0], two.log_joint_draws_[1])


def test_to_arviz() -> None:
    pytest.importorskip("xarray")
    pytest.importorskip("arviz", exc_type=ImportError)
    found = short().fit(planted(24)).to_arviz()
    assert dict(found.posterior.sizes) == {"chain": 2, "draw": 20}


def test_starts_from_a_variational_fit() -> None:
    X = planted(25)
    for kind in KINDS:
        model, cells = BinaryModel(kind, 20, concentration=0.05), cells_of(X, kind)
        labels, row_labels = start_labels(Key(0), cells, model, "vb")
        assert labels.max() < 10 <= start_labels(Key(0), cells, model, "random")[0].max()
        if kind == "dir-dir":
            by_row = np.empty_like(labels)
            to_row_order(cells.ordered, labels, by_row)
            np.testing.assert_array_equal(by_row == row_labels, (cells.codes & 1) == 1)
        fitted = short(20, model=kind, init="vb", burn_in=0).fit(X)
        # two blocks are found by the variational fit, and not yet by sweeps from random labels
        assert np.sort(fitted.component_cells_)[-3:].sum() > 0.7 * fitted.component_cells_.sum()


def test_a_number_of_components_set_after_the_fit() -> None:
    """It is for the next fit: activations have the parts that there are, and streams do not go on with others."""
    X = planted(6)
    model = short(2, inference="vb").partial_fit(X)
    expected = model.transform(X)
    model.set_params(n_components=5, activation_concentration=0.5)
    assert model.transform(X).shape == expected.shape
    with pytest.raises(InvalidInputError, match="n_components is 5, but there are 2 parts already"):
        model.partial_fit(X)


def test_batches() -> None:
    both = planted(26, 400, 20)
    X, new = both[:200], both[200:]
    for model in ("beta-dir", "dir-beta", "dir-dir"):
        fitted = short(3, model=model, inference="vb", batch_size=40, nonparametric=False).fit(X)
        assert fitted.score(new) > -0.5
        streamed = short(3, model=model, inference="vb", nonparametric=False)
        for start in range(0, 200, 40):
            streamed.partial_fit(X[start : start + 40])
        assert streamed.n_samples_seen_ == 200
        assert streamed.n_iter_ == 5
        assert streamed.transform(X).shape == (200, 3)
        with pytest.raises(InvalidInputError, match="has none"):
            streamed.predict_proba()
    assert not hasattr(short(), "partial_fit")


def test_interrupted_in_its_burn_in() -> None:
    def stop(iteration: int, state: Any, trace: Any) -> bool:
        return iteration == 3

    fitted = short(callbacks=(stop,)).fit(planted(28))
    assert fitted.status_.code == "stopped"
    assert fitted.log_joint_draws_.shape == (2, 1)
    assert np.all(np.isfinite(fitted.probabilities_))


def test_variational_fit_says_that_it_has_not_converged() -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        short(inference="vb", tol=1e-12, max_iter=3).fit(planted(29))
    assert short(inference="cvb0", tol=1e-3, max_iter=500).fit(planted(29)).status_.converged


def test_cells() -> None:
    X = planted(30)
    fitted = short().fit(X)
    rows, columns = np.nonzero(np.isnan(X))
    np.testing.assert_array_equal(fitted.predict_proba(cells=(rows, columns)), fitted.predict_proba()[rows, columns])
    assert fitted.predict_proba(X[:3], cells=([0, 2], [1, 1])).shape == (2,)
    full = np.where(np.isnan(X), 1.0, X)
    expected = -np.log(fitted.probabilities_[rows, columns]).mean()
    assert np.isclose(fitted.log_loss(full), expected)
    assert np.isclose(fitted.log_loss(full, cells=(rows, columns)), expected)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"beta_prior": (1.0,)}, "beta_prior must be two positive numbers"),
        ({"beta_prior": (1.0, -1.0)}, "beta_prior must be two positive numbers"),
        ({"n_components": 1, "model": "dir-dir"}, "n_components=1 with model='dir-dir'"),
        ({"model": "dir-dir", "inference": "cvb0"}, "needs a beta factor"),
        ({"model": "dir-dir", "inference": "gibbs-partial"}, "needs a beta factor"),
        ({"batch_size": 5}, "batch_size is for inference='vb'"),
        ({"inference": "cvb0", "max_memory": 1e4}, "max_memory"),
        ({"max_memory": 1e4}, "max_memory"),
    ],
)
def test_parameters_that_cannot_be(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        BinaryNMF(**parameters).fit(planted(31))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model, X: model.fit(X + 1.0), "neither 0 nor 1"),
        (lambda model, X: model.predict_proba(cells=([0], [99])), "no column 99"),
        (lambda model, X: model.predict_proba(cells=([-1], [0])), "no row -1"),
        (lambda model, X: model.predict_proba(cells=([0.5], [0])), "pair"),
        (lambda model, X: model.predict_proba(cells=[1, 2]), "pair"),
        (lambda model, X: model.log_loss(X), "nothing to score"),
        (lambda model, X: model.log_loss(X[:5]), "shape"),
        (lambda model, X: model.log_loss(X, cells=np.nonzero(np.isnan(X))), "missing and cannot be scored"),
        (lambda model, X: model.transform(X[:, :3]), "features"),
        (lambda model, X: model.score(np.full((1, 25), np.nan)), "too few observed cells"),
    ],
)
def test_calls_that_cannot_be(call: Any, message: str) -> None:
    X = planted(32)
    with pytest.raises(ValueError, match=message):
        call(short().fit(X), X)


def test_damaged_file(tmp_path: Any) -> None:
    fitted = short().fit(planted(33))
    fitted.components_ = fitted.components_ * 3
    fitted.save(tmp_path / "bad.partwise")
    with pytest.raises(FileFormatError, match="not probabilities"):
        partwise.load(tmp_path / "bad.partwise")


def test_beta_prior_as_a_list_is_saved(tmp_path: Any) -> None:
    fitted = short(beta_prior=[2.0, 1.0]).fit(planted(34))
    fitted.save(tmp_path / "list.partwise")
    assert tuple(partwise.load(tmp_path / "list.partwise").beta_prior) == (2.0, 1.0)
