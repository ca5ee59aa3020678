"""The estimators by the names of the figures, each with so many draws that their numbers can be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.likelihood import annealed, direct_sampling, harmonic_mean, left_to_right, smc
from partwise.likelihood.problem import LogLikelihood
from partwise.reproduce.l2r._corpora import Corpus

Estimate = Callable[[Corpus, int, int], LogLikelihood]

EXACT_CONDITIONALS = "L2R, exact conditionals"


@dataclass(frozen=True)
class LikelihoodMethod:
    """An estimator: ``estimate(corpus, n_draws, seed)``, and the most draws that it is run with."""

    name: str
    estimate: Estimate
    most_draws: float = np.inf


def sampled(n_inner: int) -> str:
    """Name of the left-to-right algorithm with this many inner draws."""
    return f"L2R, S' = {n_inner}"


def methods(inner: Sequence[int], most_inner: int) -> list[LikelihoodMethod]:
    """The paper's four, with all S', and two more."""
    return [
        LikelihoodMethod("DS", _with(direct_sampling)),
        LikelihoodMethod("HM", _with(harmonic_mean)),
        *(LikelihoodMethod(sampled(n), _with(left_to_right, n_inner=n), most_inner / n) for n in inner),
        LikelihoodMethod(EXACT_CONDITIONALS, _with(left_to_right, conditionals="exact")),
        LikelihoodMethod("annealed", _annealed),
        LikelihoodMethod("smc", _smc),
    ]


def _with(estimator: Any, **settings: Any) -> Estimate:
    return lambda c, n, seed: estimator(c.counts, *c.model, rng=seed, n_draws=n, **settings)


def _annealed(corpus: Corpus, n_draws: int, seed: int) -> LogLikelihood:
    """As many sweeps in all as draws: runs of a tenth of them, at least five steps long."""
    steps = max(5, n_draws // 10)
    return _with(annealed, n_temperatures=steps)(corpus, max(2, n_draws // steps), seed)


def _smc(corpus: Corpus, n_draws: int, seed: int) -> LogLikelihood:
    """Particles in islands of up to 64."""
    return _with(smc, n_islands=max(2, n_draws // 64))(corpus, n_draws, seed)
