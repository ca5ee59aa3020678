"""The estimators by the names of the figures, each with so many draws that their numbers can be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise.likelihood import annealed, direct_sampling, harmonic_mean, left_to_right, smc
from partwise.likelihood.result import LogLikelihood
from partwise.reproduce.l2r._corpora import Corpus

Floats = NDArray[np.float64]
Estimate = Callable[[Corpus, int, int], LogLikelihood]

EXACT_CONDITIONALS = "L2R, exact conditionals"


@dataclass(frozen=True)
class Method:
    """An estimator: ``estimate(corpus, n_draws, seed)``, and the most draws that it is run with."""

    name: str
    estimate: Estimate
    most_draws: float = np.inf


def sampled(n_inner: int) -> str:
    """Name of the left-to-right algorithm with so many inner draws."""
    return f"L2R, S' = {n_inner}"


def methods(inner: Sequence[int], most_inner: int) -> list[Method]:
    """The paper's four, with all S', and two more."""
    return [
        Method("DS", lambda c, n, seed: direct_sampling(c.counts, *c.model, rng=seed, n_draws=n)),
        Method("HM", lambda c, n, seed: harmonic_mean(c.counts, *c.model, rng=seed, n_draws=n)),
        *(Method(sampled(each), _left_to_right(each), most_inner / each) for each in inner),
        Method(
            EXACT_CONDITIONALS,
            lambda c, n, seed: left_to_right(c.counts, *c.model, rng=seed, n_draws=n, conditionals="exact"),
        ),
        Method("annealed", _annealed),
        Method("smc", _smc),
    ]


def _left_to_right(n_inner: int) -> Estimate:
    return lambda c, n, seed: left_to_right(c.counts, *c.model, rng=seed, n_draws=n, n_inner=n_inner)


def _annealed(corpus: Corpus, n_draws: int, seed: int) -> LogLikelihood:
    """As many sweeps in all as draws: runs of a tenth of them, at least five steps long."""
    n_temperatures = max(5, n_draws // 10)
    return annealed(
        corpus.counts,
        *corpus.model,
        rng=seed,
        n_draws=max(2, n_draws // n_temperatures),
        n_temperatures=n_temperatures,
    )


def _smc(corpus: Corpus, n_draws: int, seed: int) -> LogLikelihood:
    """Particles in islands of up to 64."""
    return smc(corpus.counts, *corpus.model, rng=seed, n_draws=n_draws, n_islands=max(2, n_draws // 64))
