"""How much is run: the paper's Section 6.1 as far as it is feasible, or just enough to see that it works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Protocol:
    """Sizes of the experiments.

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
        Repetitions in the large corpora, by number of draws.
    """

    small: Sequence[str]
    large: Sequence[str]
    most_topics: int
    small_sweeps: int
    large_sweeps: int
    documents: int
    large_documents: int
    draws: Sequence[int]
    inner: Sequence[int]
    most_inner: int
    repeats: int
    large_repeats: Mapping[int, int]


FULL = Protocol(
    small=("twitter100", "nips100", "reuters395", "ap", "kos", "newsgroups20"),
    large=("reuters395", "ap", "kos", "newsgroups20"),
    most_topics=100,
    small_sweeps=1000,
    large_sweeps=300,
    documents=200,
    large_documents=100,
    draws=(10, 100, 1000),
    inner=(1, 10, 100),
    most_inner=10_000,
    repeats=10,
    large_repeats={10: 10, 100: 3, 1000: 1},
)
QUICK = Protocol(
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
    large_repeats={10: 3, 100: 2},
)


def protocol(quick: bool) -> Protocol:
    """The long or the short one."""
    return QUICK if quick else FULL
