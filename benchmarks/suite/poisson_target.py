"""PoissonNMF: seconds to the likelihood that scikit-learn reaches.

The target is what ``NMF(solver="mu", beta_loss="kullback-leibler")`` reaches after its default 200 iterations; both
start from the same factors, another pair for each repeat. Our clock runs from the call of ``fit`` and stands still
while the likelihood is compared; a target counts as reached when plain NumPy says so of our factors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness.data import Dataset, cases
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped
from benchmarks.harness.measuring import compile_kernels, fit_until, log_likelihood, random_start
from benchmarks.harness.peers import NMF_NAME, sklearn_nmf

_ITERATIONS = 200
_GOAL = Goal(20, "at least")


def measure(settings: Settings) -> Iterator[Line]:
    """The default algorithm against scikit-learn's multiplicative updates."""
    compiling = compile_kernels()
    for dataset, n_components in cases(synthetic=(10,), nips=(10, 50)):
        yield _line(settings, dataset, n_components, compiling)


def _line(settings: Settings, dataset: Dataset, n_components: int, compiling: float) -> Line:
    what = f"seconds to the target, K = {n_components}"
    if dataset.missing:
        return skipped(what, dataset.name, dataset.missing, _GOAL)
    counts = dataset.load()
    ours: list[float | None] = []
    peer: list[float | None] = []
    iterations = []
    for seed in range(settings.repeats):
        start = random_start(counts, n_components, seed)
        seconds, reached = sklearn_nmf(counts, start, _ITERATIONS)
        peer.append(seconds)
        target = log_likelihood(counts, *reached)

        def done(state: Any, trace: Any, target: float = target) -> bool:
            # Our own report is free; only when it says so do we ask NumPy.
            if not trace.columns["objective"][-1] >= target:
                return False
            return log_likelihood(counts, state.activations, state.dictionary.T) >= target

        clock = fit_until(done, counts, n_components, max_iter=2000, init=start)
        ours.append(clock.seconds)
        iterations.append(clock.iterations)
    return Line(
        what,
        dataset.name,
        Sample.of(ours, "s"),
        Sample.of(peer, "s"),
        f"{NMF_NAME}, {_ITERATIONS} iterations",
        goal=_GOAL,
        note=f"{np.median(iterations):.0f} iterations of ours; compiling took {compiling:.1f} s",
    )
