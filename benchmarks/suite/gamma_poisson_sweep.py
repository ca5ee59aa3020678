"""GammaPoissonNMF: a Gibbs sweep with sampled allocations, beside tomotopy's LDA sweep, and two threads beside one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness.data import Dataset, real, small_counts
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped

_SWEEPS = 20
_GOALS = {10: Goal(2.0, "at least"), 100: Goal(1.5, "at least")}
_THREADS = Goal(1.6, "at least")


def measure(settings: Settings) -> Iterator[Line]:
    """Milliseconds per sweep, one after the other in each repeat."""
    dataset = real("nips_uci7605")
    for n_components, goal in _GOALS.items():
        yield _beside_lda(settings, dataset, n_components, goal)
    for n_components in _GOALS:
        yield _threads(settings, dataset, n_components)


class _Sweeper:
    """GibbsSweeps of ours given a dictionary, after some to settle."""

    def __init__(self, counts: Any, n_components: int, n_jobs: int) -> None:
        from partwise import CountMatrix
        from partwise.core.keys import Key
        from partwise.engines.local import resolve_engine
        from partwise.gamma_poisson.inference.starts import perturbed_dictionary
        from partwise.gamma_poisson.inference.sweeps import GibbsSweeps

        data = CountMatrix.build(counts)
        self.ones = np.ones(n_components)
        self.key = Key(0)
        self.number = 0
        self.sweeps = GibbsSweeps(data, resolve_engine(None, n_jobs))
        self.dictionary = perturbed_dictionary(self.key, data, self.ones, self.ones)
        self.inverse = 1.0 / (1.0 + self.dictionary.sum(axis=0, keepdims=True))
        self.counts = self.sweeps.even_counts(n_components)
        self.run(3)

    def run(self, n_sweeps: int) -> float:
        """Milliseconds per sweep: activations, then allocations."""
        began = time.perf_counter()
        for _ in range(n_sweeps):
            self.number += 1
            at = self.key.at(self.number)
            activations = self.sweeps.activations(at, self.counts, self.ones, self.inverse)
            self.counts, _ = self.sweeps.allocations(at, activations, self.dictionary)
        return 1e3 * (time.perf_counter() - began) / n_sweeps


def _beside_lda(settings: Settings, dataset: Dataset, n_components: int, goal: Goal) -> Line:
    what = f"one sweep, K = {n_components}"
    try:
        import tomotopy
    except ImportError:
        return skipped(what, dataset.name, "tomotopy is not installed", goal)
    if dataset.missing:
        return skipped(what, dataset.name, dataset.missing, goal)
    counts = dataset.load()
    _Sweeper(small_counts(), n_components, 1)
    ours = _Sweeper(counts, n_components, 1)
    theirs = tomotopy.LDAModel(k=n_components, seed=0)
    for start, stop in zip(counts.indptr[:-1], counts.indptr[1:], strict=True):
        theirs.add_doc(np.repeat(counts.indices[start:stop], counts.data[start:stop]).astype(str).tolist())
    theirs.optim_interval = 0
    theirs.train(3, workers=1)
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(settings.repeats):
        times["ours"].append(ours.run(_SWEEPS))
        began = time.perf_counter()
        theirs.train(_SWEEPS, workers=1)
        times["theirs"].append(1e3 * (time.perf_counter() - began) / _SWEEPS)
    return Line(
        what,
        dataset.name,
        Sample.of(times["ours"], "ms"),
        Sample.of(times["theirs"], "ms"),
        "tomotopy LDA, one worker, no optimisation of priors",
        goal=goal,
    )


def _threads(settings: Settings, dataset: Dataset, n_components: int) -> Line:
    what = f"one sweep on two threads, K = {n_components}"
    missing = dataset.missing or ("" if len(os.sched_getaffinity(0)) > 1 else "this machine has one core")
    if missing:
        return skipped(what, dataset.name, missing, _THREADS)
    counts = dataset.load()
    one, two = _Sweeper(counts, n_components, 1), _Sweeper(counts, n_components, 2)
    times: dict[str, list[float]] = {"one": [], "two": []}
    for _ in range(settings.repeats):
        times["two"].append(two.run(_SWEEPS))
        times["one"].append(one.run(_SWEEPS))
    return Line(
        what,
        dataset.name,
        Sample.of(times["two"], "ms"),
        Sample.of(times["one"], "ms"),
        "partwise, one thread",
        goal=_THREADS,
        threads="2",
    )
