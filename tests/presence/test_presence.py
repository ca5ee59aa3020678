"""Presence of parts against enumeration of all sets, calibration, and the rules that users set."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from partwise import CountMatrix, GammaPoissonNMF, PoissonNMF, Table, load
from partwise.core.keys import Key
from partwise.engines.local import resolve_engine
from partwise.errors import EmptyRowsWarning, InvalidInputError
from partwise.likelihood import exact
from partwise.presence import PresencePrior, presence_posterior
from partwise.presence.rows import RowSampler

NAMES = list("abcd")
PRIOR = np.array([0.3, 0.5, 0.2, 0.4])


def dictionary() -> np.ndarray:
    rng = np.random.default_rng(0)
    found = rng.dirichlet([0.6] * 6, 4).T
    found[:, 3] = 0.7 * found[:, 0] + 0.3 * rng.dirichlet([1.0] * 6)
    return found


def enumerated(x: np.ndarray, parts: np.ndarray, prior: np.ndarray, *, with_volume: bool = True) -> np.ndarray:
    """Presence probabilities by all sets, from the exact marginal likelihood of gamma-Poisson models of shape 1."""
    n_parts, total = parts.shape[1], int(x.sum())
    logs = {}
    for size in range(1, n_parts + 1):
        for chosen in itertools.combinations(range(n_parts), size):
            likelihood = exact(x[None], parts[:, chosen], np.ones(size), np.ones(size)).values[0]
            # Given the parts, the total is negative binomial and tells nothing about the shares.
            inside = likelihood - stats.nbinom.logpmf(total, size, 0.5)
            volume = 0.0 if with_volume else -float(np.sum(np.log(np.arange(1, size))))
            z = np.isin(np.arange(n_parts), chosen)
            logs[chosen] = inside + volume + np.log(np.where(z, prior, 1.0 - prior)).sum()
    whole = logsumexp(list(logs.values()))
    return np.array([sum(np.exp(v - whole) for z, v in logs.items() if k in z) for k in range(n_parts)])


@pytest.mark.parametrize("total", [4, 30, 150])
def test_probabilities_are_those_of_all_sets(total: int) -> None:
    parts = dictionary()
    x = np.random.default_rng(total).multinomial(total, parts @ [0.6, 0.4, 0.0, 0.0])
    wanted = enumerated(x, parts, PRIOR)
    data, engine = CountMatrix.build(x[None]), resolve_engine(None, 1)
    found = presence_posterior(Key(1), data, parts, PresencePrior(PRIOR), engine, NAMES, n_draws=20000)
    np.testing.assert_allclose(found.probability[0], wanted, atol=0.02)
    # The check has power: another prior, or the volume of the simplex forgotten, would be seen.
    assert np.abs(enumerated(x, parts, PRIOR * 0.7) - wanted).max() > 0.04
    assert total < 30 or np.abs(enumerated(x, parts, PRIOR, with_volume=False) - wanted).max() > 0.04


def test_missing_cells_are_left_out() -> None:
    parts = dictionary()
    x = np.array([[15.0, 14.0, np.nan, 3.0, 16.0, np.nan]])
    seen = [0, 1, 3, 4]
    scaled = parts[seen] / parts[seen].sum(axis=0)
    wanted = enumerated(x[0, seen].astype(int), scaled, PRIOR)
    model = PoissonNMF.from_components(parts.T)
    found = model.presence(x, prior=PRIOR, n_draws=8000)
    np.testing.assert_allclose(found.probability[0], wanted, atol=0.03)
    named = PoissonNMF.from_components(parts.T, feature_names=list("uvwxyz"))
    table = Table(x[:, [4, 0, 1, 3]], column_labels=np.array(list("yuvx")))
    with pytest.warns(UserWarning, match="X has 4 of the 6 features"):
        again = named.presence(table, prior=PRIOR, n_draws=8000)
    np.testing.assert_allclose(again.probability, found.probability, atol=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("total", [20, 300])
def test_calibrated_under_the_prior(total: int) -> None:
    """Simulation-based calibration; each check fails by chance in 1 of 1000 runs, and the seed is fixed."""
    rng, n_rows = np.random.default_rng(3), 600
    parts = rng.dirichlet([0.5] * 16, 8).T
    parts[:, 7] = 0.8 * parts[:, 0] + 0.2 * parts[:, 7]
    z = rng.random((n_rows, 8)) < 0.4
    z[~z.any(axis=1), 0] = True  # a sample with counts has a part: the few such rows hardly matter
    shares = rng.gamma(1.0, 1.0, z.shape) * z
    shares /= shares.sum(axis=1, keepdims=True)
    x = np.array([rng.multinomial(total, parts @ one) for one in shares])
    sampler = RowSampler(Key(5), CountMatrix.build(x), parts, np.full(8, 0.4), 400, 4, 12)
    probability, ranks, covered = np.zeros(z.shape), [], []
    for n in range(n_rows):
        probability[n], draws, *_ = sampler.row(n)
        drawn = draws / draws.sum(axis=1, keepdims=True)
        below, equal = (drawn < shares[n]).mean(axis=0), (drawn == shares[n]).mean(axis=0)
        ranks.append(below + equal * rng.random(8))
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        covered.append((low <= shares[n]) & (shares[n] <= high))
    excess = (z - probability).sum() / np.sqrt((probability * (1 - probability)).sum())
    assert abs(excess) < 3.3
    assert stats.kstest(np.ravel(ranks)[::3], "uniform").pvalue > 1e-3
    # Intervals that include the bound cover a little more than they say.
    assert 0.93 <= np.mean(covered) <= 0.99


@pytest.fixture(scope="module")
def refit() -> tuple[PoissonNMF, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    parts = rng.dirichlet([0.3] * 40, 12)
    names = [f"ref {k}" for k in range(12)]
    truth = np.zeros((10, 12))
    for n in range(10):
        chosen = rng.choice(12, 3, replace=False)
        truth[n, chosen] = rng.dirichlet([2.0] * 3) * 3000
    model = PoissonNMF.from_components(parts, component_names=names, presence=True, n_jobs=2)
    return model, rng.poisson(truth @ parts), truth


def test_absent_parts_get_nothing(refit: tuple[PoissonNMF, np.ndarray, np.ndarray]) -> None:
    model, x, truth = refit
    found = model.presence(x)
    assert np.mean((found.probability > 0.5) == (truth > 0)) > 0.98
    assert found.mean[truth == 0].sum() < 0.01 * x.sum()
    inside = (found.lower <= truth) & (truth <= found.upper)
    assert inside.mean() > 0.9
    assert np.all(found.lower[found.probability < 0.9] == 0)
    assert np.all(found.cosine > 0.99)
    assert np.all(found.residual < 0.05)
    assert np.all(found.disagreement < 0.3)
    np.testing.assert_array_equal(model.transform(x), found.mean)
    np.testing.assert_array_equal(model.activation_errors(x), found.std)


def test_intervals_are_wider_where_counts_vary_more(refit: tuple[PoissonNMF, np.ndarray, np.ndarray]) -> None:
    model, x, truth = refit
    rng = np.random.default_rng(4)
    rates = truth @ model.components_
    noisy = rng.poisson(rates * rng.gamma(20.0, 1.0 / 20.0, rates.shape))
    found, plain = model.presence(noisy), model.presence(noisy, noise="poisson")
    # Noise of size 20 is found in samples of 3,000 counts; Poisson samples ring by chance, more than 3 of 10 never.
    assert np.all(np.isfinite(found.noise_size))
    assert 10.0 < np.median(found.noise_size) < 40.0
    assert np.isfinite(model.presence(x, n_draws=20).noise_size).sum() <= 3
    present = truth > 50
    held = [((one.lower <= truth) & (truth <= one.upper))[present].mean() for one in (found, plain)]
    assert held[1] < 0.75 < 0.85 <= held[0]
    # The shares are weighted, the total is not: activations add up to the counts.
    np.testing.assert_allclose(found.mean.sum(axis=1), noisy.sum(axis=1), rtol=0.03)
    with pytest.raises(InvalidInputError, match="noise must be"):
        model.presence(x, noise="gamma")


def test_same_bits_for_any_threads_and_any_rows(refit: tuple[PoissonNMF, np.ndarray, np.ndarray], tmp_path) -> None:
    model, x, _ = refit
    model.save(tmp_path / "refit.partwise")
    again = load(tmp_path / "refit.partwise").set_params(n_jobs=1)
    assert again.selects_parts
    np.testing.assert_array_equal(again.transform(x[:4]), model.transform(x)[:4])
    other = model.presence(x[:4], random_state=1)
    assert np.any(other.mean != model.transform(x[:4]))


def test_allowed_forbidden_and_always(refit: tuple[PoissonNMF, np.ndarray, np.ndarray]) -> None:
    model, x, truth = refit
    sure = int(np.argmax(truth[0]))
    absent = int(np.argmin(truth[0]))
    found = model.presence(x[:1], forbidden=[f"ref {sure}"], always=[absent], n_draws=100)
    assert found.probability[0, sure] == 0 == found.upper[0, sure]
    assert found.probability[0, absent] == pytest.approx(1)
    assert found.lower[0, absent] > 0
    only = model.presence(x[:1], allowed=["ref 1", "ref 2"], n_draws=100)
    assert np.all(only.probability[0, [0, *range(3, 12)]] == 0)
    for wrong, told in (
        ({"forbidden": ["ref 99"]}, r"there is no part 'ref 99' \(forbidden\)"),
        ({"prior": 1.5}, "presence must hold probabilities: give numbers from 0 to 1"),
        ({"prior": [0.1, 0.2]}, "one for each of 12 parts"),
        ({"allowed": []}, "forbids every part"),
        ({"n_draws": 3}, "n_draws must be at least 20"),
    ):
        with pytest.raises(InvalidInputError, match=told):
            model.presence(x, **wrong)
    with pytest.raises(InvalidInputError, match="pass presence=True"):
        PoissonNMF.from_components(np.eye(2), always=[0])


def test_parts_that_cannot_be_told_apart_are_named() -> None:
    rng = np.random.default_rng(0)
    parts = rng.dirichlet([0.5] * 20, 5)
    parts[4] = 0.99 * parts[0] + 0.01 * parts[4]
    x = rng.poisson(np.array([[200.0, 150.0, 0, 0, 0]] * 3) @ parts)
    found = GammaPoissonNMF.from_components(parts, component_names=[*NAMES, "twin"]).presence(x)
    assert next(iter(found.confused)) == ("a", "twin")
    assert np.all(np.abs(found.probability[:, [0, 4]] - 0.5) < 0.35)
    assert np.all(found.probability[:, 1] > 0.95)


def test_hard_rows(refit: tuple[PoissonNMF, np.ndarray, np.ndarray]) -> None:
    model, _, _ = refit
    hard = np.zeros((4, 40))
    hard[1, 3] = 1
    hard[2, 5] = 1e7
    hard[3] = 1e5
    with pytest.warns(EmptyRowsWarning):
        found = model.presence(hard, n_draws=40)
    for values in (found.probability, found.mean, found.std, found.lower, found.upper, found.cosine, found.residual):
        assert np.all(np.isfinite(values))
    np.testing.assert_array_equal(found.probability[0], model.presence_prior_)
    assert found.mean[3].sum() == pytest.approx(4e6, rel=0.01)
    # A feature that no part has is no reason to fail.
    gap = PoissonNMF.from_components([[0.5, 0.5, 0.0], [0.9, 0.1, 0.0]], presence=True)
    assert np.all(np.isfinite(gap.transform([[50, 50, 7]])))
