"""PoissonNMF: rise in peak memory during a fit.

The most resident memory while ``fit`` runs, less what the process holds just before, in a process of its own in which a
small fit has loaded every library and kernel. Beside it, the bytes of the CSR matrix that is passed and of the factors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks.harness.data import Dataset, cases
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped
from benchmarks.harness.processes import run_module

_GOAL = Goal(3, "below")


def measure(settings: Settings) -> Iterator[Line]:
    """Both algorithms, fifteen iterations, one and two threads."""
    for inference, n_threads in (("coordinate", 1), ("coordinate", 2), ("multiplicative", 1)):
        for dataset, n_components in cases(synthetic=(10,), nips=(10, 50)):
            yield _line(settings, dataset, inference, n_components, n_threads)


def _line(settings: Settings, dataset: Dataset, inference: str, n_components: int, n_threads: int) -> Line:
    what = f"rise in peak memory, {inference}, K = {n_components}"
    if not sys.platform.startswith("linux"):
        return skipped(what, dataset.name, "peak memory is read from Linux's /proc", _GOAL)
    if dataset.missing:
        return skipped(what, dataset.name, dataset.missing, _GOAL)
    rises, sizes = [], []
    for _ in range(settings.repeats):
        measured = run_module("benchmarks.harness.memory", dataset.key, str(n_components), inference, str(n_threads))
        rises.append(measured["rise"] / 1e6)
        sizes.append(measured["size"] / 1e6)
    return Line(
        what,
        dataset.name,
        Sample.of(rises, "MB"),
        Sample.of(sizes, "MB"),
        "CSR and factors",
        peer_over_ours=False,
        goal=_GOAL,
        threads=str(n_threads),
    )
