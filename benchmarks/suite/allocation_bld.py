"""AllocationNMF: one iteration of the best latent decomposition, in iterations of PoissonNMF.

Iterations of PoissonNMF are those of EM (``inference="multiplicative"``): a pass over the rows and one over the
columns. An iteration of ``inference="bld"`` forms every S_nfk, its digamma for both gradients, then log Γ of the moved
ones; digamma comes from a table of cubics that is exact to 3e-10, log Γ to 7e-11.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from benchmarks.harness.data import real
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped
from benchmarks.harness.measuring import random_start, seconds_per_iteration

_COMPONENTS = 20
_GOAL = Goal(10, "below")
_FIRST, _LAST = 3, 8


def measure(settings: Settings) -> Iterator[Line]:
    """The ratio is ours over one iteration of PoissonNMF."""
    dataset = real("nips_uci7605")
    what = f"one iteration of bld, K = {_COMPONENTS}"
    if dataset.missing:
        yield skipped(what, dataset.name, dataset.missing, _GOAL)
        return
    counts = dataset.load()
    ours, peer = [], []
    for seed in range(settings.repeats):
        start = random_start(counts, _COMPONENTS, seed)
        options: dict[str, Any] = {"first": _FIRST, "last": _LAST, "inference": "multiplicative", "init": start}
        peer.append(1e3 * seconds_per_iteration(counts, _COMPONENTS, **options))
        ours.append(1e3 * _seconds(counts, start))
    name = "PoissonNMF, inference='multiplicative'"
    samples = Sample.of(ours, "ms"), Sample.of(peer, "ms")
    yield Line(what, dataset.name, *samples, name, peer_over_ours=False, goal=_GOAL)


def _seconds(counts: Any, start: Any) -> float:
    """Of an iteration, with all steps that it tries until log p(S) does not fall."""
    from partwise import CountMatrix
    from partwise.allocation import AllocationModel
    from partwise.allocation.inference.decomposition import BestDecomposition
    from partwise.core.keys import Key
    from partwise.engines import resolve_engine

    data = CountMatrix.build(counts)
    model = AllocationModel(counts.shape[1], _COMPONENTS, 0.1, 0.1)
    algorithm = BestDecomposition(model, start=start, start_iterations=5, engine=resolve_engine())
    state = algorithm.init(Key(0), data)
    times = []
    for iteration in range(1, _LAST + 1):
        state, _ = algorithm.step(Key(0).at(iteration), data, state)
        times.append(time.perf_counter())
    return (times[_LAST - 1] - times[_FIRST - 1]) / (_LAST - _FIRST)
