"""BetaGammaPFA: its Gibbs sampler is right, it prunes, and it behaves as every estimator does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joint_distribution import smallest_p_value

import partwise
from partwise import BetaGammaPFA, CountMatrix
from partwise.core.keys import Key
from partwise.engines.local import LocalEngine
from partwise.errors import InterruptedFitWarning, InvalidInputError
from partwise.gamma_poisson.inference.beta_gamma_gibbs import BetaGammaDraws, BetaGammaGibbs, BetaGammaState
from partwise.gamma_poisson.inference.sweeps import GibbsSweeps

ETA, SHAPE, KAPPA, EPSILON = 1.2, 0.8, 20.0, 0.7
N_SAMPLES, N_FEATURES, N_COMPONENTS = 4, 3, 2
HIDDEN = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 1, 1]], dtype=bool)


def draw_counts(rng: np.random.Generator, activations: np.ndarray, dictionary: np.ndarray) -> np.ndarray:
    """Allocations, samples x features x components."""
    return rng.poisson(activations[:, None, :] * dictionary[None, :, :])


def geweke_chain(seed: int, *, missing: bool = False, n_steps: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """A chain as `joint_distribution` describes it, on a tiny model."""
    rng = np.random.default_rng(seed)
    probability = rng.beta(KAPPA * EPSILON, KAPPA * (1 - EPSILON), size=N_COMPONENTS)
    dictionary = rng.dirichlet(np.full(N_FEATURES, ETA), size=N_COMPONENTS).T
    activations = rng.gamma(SHAPE, probability / (1 - probability), size=(N_SAMPLES, N_COMPONENTS))
    allocations = draw_counts(rng, activations, dictionary)
    algorithm = BetaGammaGibbs(N_COMPONENTS, ETA, SHAPE, KAPPA, EPSILON, n_steps + 1, 0, LocalEngine())
    zeros = np.zeros(N_COMPONENTS)
    draws = BetaGammaDraws(BetaGammaDraws.no_numbers(1, n_steps + 1), 0)
    state = BetaGammaState(
        allocations.sum(axis=1) * 1.0, dictionary, probability, np.zeros_like(dictionary), zeros, zeros.copy(), draws
    )
    start = statistics(state)
    for iteration in range(1, n_steps + 1):
        if iteration % 3 == 1:
            X = allocations.sum(axis=2).astype(float)
            if missing:
                X[HIDDEN] = np.nan
            data = CountMatrix.build(X)
        state, _ = algorithm.step(Key(seed).at(iteration), data, state)
        if iteration % 3 == 0 and iteration < n_steps:
            activations = rng.gamma(SHAPE + state.sample_counts) * state.probability
            allocations = draw_counts(rng, activations, state.dictionary)
            state.sample_counts = allocations.sum(axis=1) * 1.0
    return start, statistics(state)


def statistics(state: BetaGammaState) -> np.ndarray:
    """Of parameters and of allocations, and of how they go together."""
    p, dictionary, counts = state.probability, state.dictionary, state.sample_counts
    usual = p / (1 - p) * SHAPE
    return np.array(
        [
            p[0],
            p.max(),
            dictionary[0, 0],
            dictionary[1].min(),
            counts.sum(),
            counts.min(axis=1).sum(),
            np.abs(np.log1p(counts) - np.log1p(usual)).sum(),
            np.abs(np.diff(np.log1p(counts), axis=1)).max(),
        ]
    )


# KS p-values are conservative with ties, and multiplied by the number of statistics. The planted bugs show the power:
# they gave p-values of 1e-6, 1e-7, 1e-72 and 1e-34.
FALSE_ALARM = 1e-4


@pytest.mark.parametrize("missing", [False, True])
def test_sampler_keeps_the_joint_distribution(missing: bool) -> None:
    assert smallest_p_value(lambda seed: geweke_chain(seed, missing=missing), 1200) > FALSE_ALARM


def wrong_rate(original: Any) -> Any:
    def activations(self: GibbsSweeps, key: Key, sample_counts: Any, shape: Any, inverse_rates: Any) -> Any:
        return original(self, key, sample_counts, shape, inverse_rates / (1.0 - inverse_rates))

    return activations


def wrong_shape(original: Any) -> Any:
    def activations(self: GibbsSweeps, key: Key, sample_counts: Any, shape: Any, inverse_rates: Any) -> Any:
        return original(self, key, sample_counts, 2.0 * shape, inverse_rates)

    return activations


def stale_allocations(original: Any) -> Any:
    def allocations(self: GibbsSweeps, key: Key, activations: Any, dictionary: Any, **options: Any) -> Any:
        return original(self, key, np.ones_like(activations), dictionary, **options)

    return allocations


def unseen_missing(original: Any) -> Any:
    def allocations(self: GibbsSweeps, key: Key, activations: Any, dictionary: Any, **options: Any) -> Any:
        return original(self, key, activations, dictionary, impute=False)

    return allocations


@pytest.mark.parametrize(
    ("method", "bug", "missing", "n_chains"),
    [
        ("activations", wrong_rate, False, 1200),
        pytest.param("activations", wrong_shape, False, 1200, marks=pytest.mark.slow),
        ("allocations", stale_allocations, False, 300),
        ("allocations", unseen_missing, True, 300),
    ],
)
def test_planted_bugs_are_found(
    monkeypatch: pytest.MonkeyPatch, method: str, bug: Any, missing: bool, n_chains: int
) -> None:
    monkeypatch.setattr(GibbsSweeps, method, bug(getattr(GibbsSweeps, method)))
    assert smallest_p_value(lambda seed: geweke_chain(seed, missing=missing), n_chains) < FALSE_ALARM


@pytest.fixture(scope="module")
def four_parts() -> np.ndarray:
    rng = np.random.default_rng(0)
    parts = rng.dirichlet(np.full(60, 0.1), size=4)
    return rng.poisson(rng.gamma(1.0, 60.0, size=(200, 4)) @ parts)


@pytest.mark.parametrize("seed", [0, 1])
def test_prunes_to_the_number_of_parts(four_parts: np.ndarray, seed: int) -> None:
    model = BetaGammaPFA(20, n_draws=100, burn_in=1000, random_state=seed).fit(four_parts)
    assert model.n_active_components_ == 4
    np.testing.assert_allclose(model.components_.sum(axis=1), 1.0)
    # Parts that are off stay off for new samples.
    activations = model.transform(four_parts[:40])
    off = np.setdiff1d(np.arange(20), model.active_components_)
    assert activations[:, off].sum() < 0.01 * activations.sum()


def test_missing_cells_are_not_zeros(four_parts: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    hidden = rng.random(four_parts.shape) < 0.3
    X = np.where(hidden, np.nan, four_parts)
    model = BetaGammaPFA(6, n_draws=100, burn_in=300, random_state=0).fit(X)
    # Posterior means of long rows take long: a part of the rows will do.
    hidden, counts = hidden[:80], four_parts[:80]
    expected = model.inverse_transform(model.transform(X[:80]))
    assert expected[hidden].sum() == pytest.approx(counts[hidden].sum(), rel=0.05)
    correlation = np.corrcoef(expected[hidden], counts[hidden])[0, 1]
    assert correlation > 0.9


def test_same_bits_for_any_number_of_threads(four_parts: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    # Blocks so small that there are many of them.
    monkeypatch.setattr(GibbsSweeps, "_blocks", property(lambda self: [(n, n + 20) for n in range(0, 200, 20)]))
    models = [BetaGammaPFA(5, n_draws=10, burn_in=10, random_state=3, n_jobs=n).fit(four_parts) for n in (1, 2, 3)]
    activations = models[0].transform(four_parts[:6])
    for other in models[1:]:
        np.testing.assert_array_equal(models[0].components_, other.components_)
        np.testing.assert_array_equal(models[0].rate_, other.rate_)
        np.testing.assert_array_equal(activations, other.transform(four_parts[:6]))


def test_resumed_is_uninterrupted(four_parts: np.ndarray, tmp_path: Path) -> None:
    whole = BetaGammaPFA(5, n_draws=10, burn_in=5, random_state=3).fit(four_parts)
    path = tmp_path / "fit.checkpoint"

    def interrupt(iteration: int, state: Any, trace: Any) -> None:
        if iteration == 8:
            raise KeyboardInterrupt

    begun = BetaGammaPFA(5, n_draws=10, burn_in=5, random_state=3, checkpoint=path, callbacks=[interrupt])
    with pytest.warns(InterruptedFitWarning):
        begun.fit(four_parts)
    assert begun.n_iter_ == 8
    resumed = BetaGammaPFA(5, n_draws=10, burn_in=5, random_state=3, checkpoint=path, resume=True).fit(four_parts)
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    np.testing.assert_array_equal(resumed.rate_, whole.rate_)


def test_interrupted_in_burn_in_is_usable(four_parts: np.ndarray) -> None:
    model = BetaGammaPFA(5, burn_in=100, random_state=0, callbacks=[lambda iteration, state, trace: iteration == 3])
    model.fit(four_parts)
    assert model.status_.code == "stopped"
    np.testing.assert_allclose(model.components_.sum(axis=1), 1.0)
    assert np.all(np.isfinite(model.transform(four_parts[:6])))


def test_saved_and_loaded(four_parts: np.ndarray, tmp_path: Path) -> None:
    model = BetaGammaPFA(5, n_draws=10, burn_in=10, random_state=0).fit(four_parts)
    loaded = partwise.load(model.save(tmp_path / "model.partwise") and tmp_path / "model.partwise")
    assert loaded.get_params()["n_draws"] == 10
    np.testing.assert_array_equal(loaded.transform(four_parts[:5]), model.transform(four_parts[:5]))
    np.testing.assert_array_equal(loaded.score_samples(four_parts[:5]), model.score_samples(four_parts[:5]))


def test_needs_counts() -> None:
    with pytest.raises(InvalidInputError, match="is not a whole number"):
        BetaGammaPFA(2).fit([[0.5, 1.0], [2.0, 3.0]])


@pytest.mark.parametrize("X", [[[0, 0, 0], [3, 0, 1]], [[5, 0], [2, 0], [1, 0]], [[7]]])
def test_empty_rows_and_columns(X: list[list[int]]) -> None:
    model = BetaGammaPFA(3, n_draws=5, burn_in=5, random_state=0).fit(X)
    assert np.all(np.isfinite(model.components_))
    assert np.all(np.isfinite(model.transform(X)))
    assert np.isfinite(model.score(X))
