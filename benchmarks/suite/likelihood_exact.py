"""Exact likelihood: processor time.

After compilation, one thread. Twitter: all documents in one call. The others: the slowest of ten documents, each in a
call of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.harness.documents import Documents, cpu_seconds, published
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped

_N_DOCUMENTS = 10


def measure(settings: Settings) -> Iterator[Line]:
    """``partwise.likelihood.exact`` with the method that it chooses."""
    goal = Goal(0.15, "below")
    what = "all 10,653 documents, K = 5"
    documents = published("twitter100")
    if isinstance(documents, str):
        yield skipped(what, "twitter100", documents, goal)
    else:
        yield _line(settings, what, [documents], goal)
    goal = Goal(0.5, "below")
    what = "one document of 100 tokens, K = 5"
    documents = published("nips100")
    if isinstance(documents, str):
        yield skipped(what, "nips100", documents, goal)
    else:
        rows = np.flatnonzero(documents.lengths == 100)
        chosen = np.random.default_rng(0).choice(rows, _N_DOCUMENTS, replace=False)
        yield _line(settings, what, [documents.rows([row]) for row in chosen], goal)
    simulated = [_simulated(seed) for seed in range(_N_DOCUMENTS)]
    yield _line(settings, "one document of 1,000 tokens, K = 3", simulated, Goal(0.1, "below"))


def _line(settings: Settings, what: str, parts: list[Documents], goal: Goal) -> Line:
    from partwise.likelihood import exact

    calls = [partial(exact, part.counts, *part.model, max_cost=np.inf) for part in parts]
    compiling = sum(cpu_seconds(call)[0] for call in calls)
    seconds = [max(cpu_seconds(call)[0] for call in calls) for _ in range(settings.repeats)]
    note = f"least {min(seconds):.3g} s; the first run, with compiling, took {compiling:.1f} s"
    return Line(what, parts[0].name, Sample.of(seconds, "s"), goal=goal, note=note)


def _simulated(seed: int) -> Documents:
    """1,000 tokens over 500 features from three overlapping parts."""
    rng = np.random.default_rng(seed)
    dictionary = rng.dirichlet(np.full(500, 0.1), size=3).T
    counts = rng.multinomial(1000, dictionary @ rng.dirichlet(np.ones(3)))
    model = dictionary, np.full(3, 0.7), np.full(3, 0.002)
    return Documents("simulated, 500 features, seeds 0 to 9", counts[None, :], model)
