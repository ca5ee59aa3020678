"""Log-fold changes: rates against a general optimiser, shrinkage against integrals, signs against the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import linear_sum_assignment, minimize
from scipy.stats import norm

import partwise
from partwise import CountMatrix, PoissonNMF
from partwise.cli.app import build
from partwise.contract.differential import Differential, _against_all, _rates, differential, shrink
from partwise.core.weights import CellWeights
from partwise.datasets import simulate_batches
from partwise.engines.local import LocalEngine
from partwise.errors import InvalidInputError

DATA = simulate_batches(400, 120, n_groups=4, n_shared=1, n_batches=3, mean_total=300.0, random_state=0)


@pytest.fixture(scope="module")
def model() -> PoissonNMF:
    return PoissonNMF(5, random_state=0).fit(DATA.table, batch="batch")


def test_rates_and_covariances_are_those_of_an_optimiser() -> None:
    rng = np.random.default_rng(0)
    h, w = rng.gamma(0.5, 4.0, size=(50, 3)), rng.gamma(0.3, size=(6, 3))
    X = rng.poisson(h @ w.T)
    X[:, 5] = 0
    factors, groups = rng.gamma(5.0, 0.2, size=(2, 6)), rng.integers(2, size=50).astype(np.int32)
    for weights in (None, CellWeights(factors, groups)):
        data = CountMatrix.build(X)
        s = np.ones((50, 6)) if weights is None else factors[groups]
        rates, covariances = _rates(data if weights is None else data.weighted(weights), h, w + 0.1, LocalEngine(), 0.1)
        assert not rates[5].any()
        for f in range(5):
            exposure = s[:, f] @ h
            b = 0.1 / (X[:, f].sum() / exposure.sum())

            def negative(theta: np.ndarray, f: int = f, exposure: np.ndarray = exposure, b: float = b) -> float:
                p = np.exp(theta)
                return float(-(X[:, f] @ np.log(h @ p)) + (exposure + b) @ p - 0.1 * theta.sum())

            best = minimize(negative, np.log(w[f] + 0.1), method="BFGS", options={"gtol": 1e-9})
            np.testing.assert_allclose(np.log(rates[f]), best.x, atol=2e-4)
            hessian = np.empty((3, 3))
            for i in range(3):
                for j in range(3):
                    a, c = 1e-4 * np.eye(3)[i], 1e-4 * np.eye(3)[j]
                    t = np.log(rates[f])
                    hessian[i, j] = (
                        negative(t + a + c) - negative(t + a - c) - negative(t - a + c) + negative(t - a - c)
                    ) / 4e-8
            np.testing.assert_allclose(covariances[f], np.linalg.inv(hessian), rtol=1e-3, atol=1e-4)


def test_change_against_all_is_a_ratio_of_rates() -> None:
    rates, totals = np.array([[0.2, 0.1, 0.4]]), np.array([10.0, 30.0, 20.0])
    change, error, _ = _against_all(rates, np.eye(3)[None] * 0.04, totals)
    assert change[0, 0] == pytest.approx(np.log(0.2 / ((30 * 0.1 + 20 * 0.4) / 50)))
    share = np.array([1.0, -3 / 11, -8 / 11])
    assert error[0, 0] == pytest.approx(np.sqrt(0.04 * (share**2).sum()))


def test_shrinkage_is_a_posterior() -> None:
    """Against numerical integrals with the prior that was used to draw; the prior that is learned is close to it."""
    rng = np.random.default_rng(1)
    zero = rng.random(5000) < 0.7
    truth, s = np.where(zero, 0.0, rng.normal(0.0, 2.0, 5000)), rng.uniform(0.2, 1.0, 5000)
    x = truth + s * rng.normal(size=5000)
    mean, deviation, lfsr = shrink(x, s)
    for i in range(0, 200, 40):
        alternative = [
            quad(lambda t, i=i, m=m: t**m * norm.pdf(x[i], t, s[i]) * norm.pdf(t, 0, 2.0), -20, 20)[0] for m in (0, 1)
        ]
        evidence = 0.7 * norm.pdf(x[i], 0, s[i]) + 0.3 * alternative[0]
        assert mean[i] == pytest.approx(0.3 * alternative[1] / evidence, abs=0.08)
    called = lfsr <= 0.05
    assert called.sum() > 400
    # The average lfsr of what is called is the expected share of wrong signs; 3 standard errors of it.
    wrong = np.sign(mean[called]) != np.sign(truth[called])
    assert abs(wrong.mean() - lfsr[called].mean()) < 3 * np.sqrt(0.05 / called.sum())
    # Over the prior, zeros included, as credible intervals are meant.
    covered = np.abs(mean - truth) <= 1.96 * deviation
    assert covered.mean() == pytest.approx(0.95, abs=0.03)
    # Of effects that are not zero, as many as under the posterior of the true prior: fewer (0.81), because shrinkage
    # takes small ones for zeros. 3 standard errors of a share of 1,500 are 0.03.
    assert covered[~zero].mean() == pytest.approx(_covered_by_true_posterior(x, s, truth)[~zero].mean(), abs=0.03)
    nothing = shrink(np.array([np.nan]), np.array([np.nan]))
    assert nothing[2][0] == 1.0


def _covered_by_true_posterior(x: np.ndarray, s: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Whether mean ± 1.96 deviations hold the truth, the prior 0.7 at 0 and 0.3 N(0, 4) being known."""
    variance = 4.0 + s**2
    chance = 0.3 * norm.pdf(x, 0, np.sqrt(variance))
    chance = chance / (chance + 0.7 * norm.pdf(x, 0, s))
    own, spread = x * 4.0 / variance, 4.0 * s**2 / variance
    deviation = np.sqrt(chance * (own**2 + spread) - (chance * own) ** 2)
    return np.asarray(np.abs(chance * own - truth) <= 1.96 * deviation)


def true_changes(fitted: Any, found: Differential, truth: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The true log2 change that each estimate means, parts x features."""
    shares = truth / truth.sum(axis=1, keepdims=True)
    correlations = np.corrcoef(np.vstack((fitted.feature_importance(), shares)))[: len(shares), len(shares) :]
    own = linear_sum_assignment(-correlations)[1]
    logs, weights = np.log2(np.maximum(shares[own], 1e-300)), weights[own]
    changes = np.empty(found.change.shape)
    for k in range(len(shares)):
        others = np.delete(np.arange(len(shares)), k)
        mixed = np.log2(weights[others] @ np.exp2(logs[others]) / weights[others].sum())
        nearest = np.take_along_axis(logs, np.maximum(found.against[[k]], 0), axis=0)[0]
        changes[k] = logs[k] - np.where(found.against[k] < 0, mixed, nearest)
    return changes


def wrong_signs(found: Differential, fitted: Any, truth: np.ndarray, weights: np.ndarray) -> tuple[int, int]:
    """Calls at lfsr 0.05, and those among them whose sign is wrong."""
    called = found.lfsr <= 0.05
    changes = true_changes(fitted, found, truth, weights)
    return int(called.sum()), int(np.sum(np.sign(found.mean[called]) != np.sign(changes[called])))


@pytest.mark.parametrize("versus", ["least-extreme", "all"])
def test_signs_with_estimated_activations(model: PoissonNMF, versus: Any) -> None:
    found = model.differential(DATA.table, versus=versus, batch="batch")
    calls, wrong = wrong_signs(found, model, DATA.dictionary.T, DATA.activations.sum(axis=0))
    assert calls > 40
    assert wrong <= 0.05 * calls
    assert set(np.unique(found.against)) == ({-1} if versus == "all" else set(range(5)))


def test_intervals_are_those_of_known_activations() -> None:
    """They cover 95% if activations are known; estimated ones exaggerate changes, as the docs say.

    With 2,100 pairs, 3 standard errors of a share of 0.95 are 0.015; pairs of a feature are correlated.
    """
    data = simulate_batches(500, 300, n_groups=5, n_shared=2, mean_total=1500.0, effect=0.0, random_state=0)
    fitted = PoissonNMF(7, random_state=0).fit(data.table.matrix)
    truth, weights = data.dictionary.T, data.activations.sum(axis=0)
    first = fitted.differential(data.table.matrix, versus="all")
    correlations = np.corrcoef(np.vstack((fitted.components_, truth)))[:7, 7:]
    own = linear_sum_assignment(-correlations)[1]
    known = np.ascontiguousarray((data.activations * truth.sum(axis=1))[:, own] / fitted.components_.sum(axis=1))
    counts = CountMatrix.build(data.table.matrix)
    exact = differential(fitted, counts, known, LocalEngine(), "all", 0.1)
    covered = []
    for found in (exact, first):
        changes = true_changes(fitted, found, truth, weights)
        called = found.lfsr <= 0.05
        covered.append(np.mean((found.lower <= changes) & (changes <= found.upper), where=called))
    assert covered[0] == pytest.approx(0.95, abs=0.03)
    assert 0.6 < covered[1] < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("versus", ["least-extreme", "all"])
def test_signs_over_many_data_sets(versus: Any) -> None:
    """At most 5% wrong signs among calls at lfsr 0.05, shallow and deep, activations and batches estimated."""
    for depth in (150.0, 1500.0):
        calls = wrong = 0
        for seed in range(10):
            data = simulate_batches(500, 300, n_groups=5, n_shared=2, mean_total=depth, random_state=seed)
            fitted = PoissonNMF(7, random_state=seed).fit(data.table, batch="batch")
            found = fitted.differential(data.table, versus=versus, batch="batch")
            more = wrong_signs(found, fitted, data.dictionary.T, data.activations.sum(axis=0))
            calls, wrong = calls + more[0], wrong + more[1]
        assert calls > 500
        assert wrong <= 0.05 * calls, (depth, wrong, calls)


def test_threads_do_not_matter_and_tables_are_sorted(model: PoissonNMF) -> None:
    one, two = (model.set_params(n_jobs=n).differential(DATA.table, batch="batch") for n in (1, 3))
    np.testing.assert_array_equal(one.mean, two.mean)
    columns = one.columns(lfsr=0.05)
    assert columns["lfsr"].max() <= 0.05
    first = columns["part"] == columns["part"][0]
    assert np.all(np.diff(columns["mean"][first]) <= 0)
    best = one.top(0, 3)
    assert best == columns["feature"][columns["part"] == "part 0"][: len(best)].tolist()


def test_volcano_and_command(model: PoissonNMF, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from partwise.io import write_matrix
    from partwise.plotting import plot_volcano

    figure = plot_volcano(model.differential(DATA.table, batch="batch"), parts=[1, 3])
    assert [ax.get_title(loc="left") for ax in figure.axes][:2] == ["part 1", "part 3"]  # type: ignore[attr-defined]
    figure.canvas.draw()  # type: ignore[attr-defined]
    assert "10" in [label.get_text() for label in figure.axes[0].get_yticklabels()]  # type: ignore[attr-defined]
    write_matrix(tmp_path / "x.npz", DATA.table)
    batch = tmp_path / "batch.csv"
    lines = [f"{name},{b}" for name, b in zip(DATA.table.row_labels, DATA.table.metadata["batch"], strict=True)]
    batch.write_text("\n".join(lines))
    model.save(tmp_path / "m.partwise")
    words = ["markers", tmp_path / "m.partwise", tmp_path / "x.npz", "-o", tmp_path / "o.csv", "--batch", batch]
    done = CliRunner().invoke(build(), [str(word) for word in [*words, "--volcano", tmp_path / "v.png"]])
    assert done.exit_code == 0, done.output
    assert "part 0" in done.stdout
    assert (tmp_path / "o.csv").read_text().startswith("part,feature,against,change,std_error,mean,lower,upper,lfsr")
    assert (tmp_path / "v.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("options", "sentence"), [({"versus": "x"}, "versus='x'"), ({"pseudocount": 0}, "pseudocount")]
)
def test_mistakes(model: PoissonNMF, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInputError, match=sentence):
        model.differential(DATA.table, batch="batch", **options)
    with pytest.raises(InvalidInputError, match="there is only one"):
        partwise.PoissonNMF(1).fit(DATA.table.matrix).differential(DATA.table.matrix)
