"""The Gibbs sampler of GammaPoissonNMF keeps the joint distribution, and a test that would see if it did not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from joint_distribution import smallest_p_value

from partwise import CountMatrix
from partwise.core.keys import Key
from partwise.engines.local import LocalEngine
from partwise.gamma_poisson import GammaPoissonModel
from partwise.gamma_poisson.inference.gibbs import Chain, GibbsEStep
from partwise.gamma_poisson.inference.sweeps import GibbsSweeps

MODEL = GammaPoissonModel(np.array([[2.0, 0.3], [0.5, 1.5], [0.2, 0.8]]), shape=[0.7, 2.0], rate=[0.6, 1.5])
N_SAMPLES = 4
HIDDEN = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 1, 1]], dtype=bool)
# Five statistics, KS p-values multiplied by five: a false alarm in 10,000 runs at most (ties are conservative).
FALSE_ALARM = 1e-4
N_CHAINS = 500


def statistics(X: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Of observed counts and allocation totals, and of how they go together."""
    return np.array(
        [counts[:, 0].sum(), counts[:, 1].sum(), counts.min(axis=1).sum(), (X @ [1, 2, 3]) @ counts[:, 0], X.max()]
    )


def geweke_chain(seed: int, *, missing: bool = False, n_rounds: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Allocations given X by the sampler, then X anew given its activations."""
    rng = np.random.default_rng(seed)
    engine = LocalEngine()
    observed = ~HIDDEN if missing else np.ones_like(HIDDEN)

    def new_data(activations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        allocations = rng.poisson(activations[:, None, :] * MODEL.dictionary) * observed[:, :, None]
        return allocations.sum(axis=2), allocations.sum(axis=1) * 1.0

    X, counts = new_data(rng.gamma(MODEL.shape, 1 / MODEL.rate, size=(N_SAMPLES, 2)))
    start = statistics(X, counts)
    for number in range(1, n_rounds + 1):
        data = CountMatrix.build(np.where(observed, X, np.nan))
        chain = Chain(counts)
        GibbsEStep(data, engine).run(Key(seed).at(number), chain, MODEL, n_draws=2, burn_in=0)
        counts = chain.sample_counts
        if number < n_rounds:
            exposure = observed @ MODEL.dictionary
            X, counts = new_data(rng.gamma(MODEL.shape + counts) / (MODEL.rate + exposure))
    return start, statistics(X, counts)


@pytest.mark.parametrize("missing", [False, True])
def test_sampler_keeps_the_joint_distribution(missing: bool) -> None:
    def chain(seed: int) -> tuple[np.ndarray, np.ndarray]:
        return geweke_chain(seed, missing=missing)

    assert smallest_p_value(chain, N_CHAINS) > FALSE_ALARM


def missing_total(original: Any) -> Any:
    """The rate of the activations' gamma without the column sums of the dictionary."""

    def activations(self: GibbsSweeps, key: Key, sample_counts: Any, shape: Any, inverse_rates: Any) -> Any:
        return original(self, key, sample_counts, shape, np.atleast_2d(1 / MODEL.rate))

    return activations


def wrong_shape(original: Any) -> Any:
    def activations(self: GibbsSweeps, key: Key, sample_counts: Any, shape: Any, inverse_rates: Any) -> Any:
        return original(self, key, sample_counts, np.ones_like(shape), inverse_rates)

    return activations


def stale_allocations(original: Any) -> Any:
    """Allocations given activations of before."""

    def allocations(self: GibbsSweeps, key: Key, activations: Any, dictionary: Any, **options: Any) -> Any:
        return original(self, key, np.tile(MODEL.shape / MODEL.rate, (N_SAMPLES, 1)), dictionary, **options)

    return allocations


@pytest.mark.parametrize(
    ("method", "bug"),
    [("activations", missing_total), ("activations", wrong_shape), ("allocations", stale_allocations)],
)
def test_planted_bugs_are_found(monkeypatch: pytest.MonkeyPatch, method: str, bug: Any) -> None:
    monkeypatch.setattr(GibbsSweeps, method, bug(getattr(GibbsSweeps, method)))
    assert smallest_p_value(geweke_chain, N_CHAINS) < FALSE_ALARM
