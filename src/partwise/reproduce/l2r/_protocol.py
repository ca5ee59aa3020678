"""How much is run: the paper's Section 6.1 as far as it is feasible, or just enough to see that it works."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
    large: Sequence[str] = ("reuters395", "ap", "kos", "newsgroups20")
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


def evaluation_sizes(quick: bool) -> EvaluationSizes:
    """The short or the long ones."""
    return QUICK if quick else FULL
