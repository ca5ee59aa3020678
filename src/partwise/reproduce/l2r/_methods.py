"""The estimators by the names of the figures, each with so many draws that numbers compare, and how much is run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.likelihood import annealed, direct_sampling, harmonic_mean, left_to_right, smc
from partwise.likelihood.problem import LogLikelihood
from partwise.reproduce.l2r._corpora import Corpus


@dataclass(frozen=True, kw_only=True)
class EvaluationSizes:
    """Sizes of the experiments; the defaults are those of the full version.

    Attributes
    ----------
    small, large
        Corpora with 100 words and five topics, and with all words and many topics.
    most_topics
        K_max of the large models.
    small_sweeps, large_sweeps
        Sweeps of training, half of them burn-in.
    documents, large_documents
        Documents of each corpus that are evaluated.
    draws
        Numbers of draws S.
    inner
        Numbers of inner draws S' of the left-to-right algorithm.
    most_inner
        Most S x S'.
    repeats
        Repetitions in the small corpora.
    large_repeats
        Numbers of draws in the large corpora, each with its repetitions.
    """

    small: Sequence[str] = ("twitter100", "nips100", "reuters395", "ap", "kos", "newsgroups20")
    large: Sequence[str] = ("reuters395", "ap", "kos", "newsgroups20", "nips_uci7605", "nips2483")
    most_topics: int = 100
    small_sweeps: int = 1000
    large_sweeps: int = 300
    documents: int = 200
    large_documents: int = 100
    draws: Sequence[int] = (10, 100, 1000)
    inner: Sequence[int] = (1, 10, 100)
    most_inner: int = 10_000
    repeats: int = 10
    large_repeats: Sequence[tuple[int, int]] = ((10, 10), (100, 3), (1000, 1))


FULL = EvaluationSizes()
QUICK = EvaluationSizes(
    small=("twitter100", "nips100", "reuters395"),
    large=("reuters395",),
    most_topics=10,
    small_sweeps=60,
    large_sweeps=20,
    documents=15,
    large_documents=5,
    draws=(10, 100),
    inner=(1, 10),
    most_inner=1000,
    repeats=3,
    large_repeats=((10, 3), (100, 2)),
)


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
