"""PoissonNMF: processor seconds to a stationary point, beside other algorithms for the same problem.

The largest violation of the Karush-Kuhn-Tucker conditions, as in ``kkt_residual_``, falls below 1e-3 and below 1e-6.
Ours is the default, coordinate descent with extrapolation as in fastTopics. The others run on the kernels of partwise
(`benchmarks.harness.kl_solvers`), plain multiplicative updates are ``inference="multiplicative"``. scikit-learn sets
small entries to zero, which multiplicative updates cannot leave: the remark has what it reaches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks.harness.data import Dataset, cases, small_counts
from benchmarks.harness.kl_solvers import SOLVERS, Factors
from benchmarks.harness.line import Line, Sample, Settings, skipped
from benchmarks.harness.measuring import compile_kernels, random_start
from benchmarks.harness.peers import NMF_NAME, sklearn_nmf

_RESIDUALS = (1e-3, 1e-6)
# Algorithms that take longer than this many seconds per part are stopped.
_SECONDS_PER_PART, _ITERATIONS = 1.0, 200
_OURS = "coordinate"

Reached = dict[float, float | None]


def measure(settings: Settings) -> Iterator[Line]:
    """All algorithms from the same starts, those of the benchmark ``poisson_target``."""
    compile_kernels()
    _others(small_counts(), 3, 0, 0.2)
    for dataset, n_components in cases(synthetic=(10,), nips=(10, 50)):
        if settings.wants(f"K = {n_components}", dataset.name):
            yield from _lines(settings, dataset, n_components)


def _lines(settings: Settings, dataset: Dataset, n_components: int) -> Iterator[Line]:
    words = {one: f"processor seconds to a KKT residual of {one:g}, K = {n_components}" for one in _RESIDUALS}
    if dataset.missing:
        yield from (skipped(what, dataset.name, dataset.missing) for what in words.values())
        return
    counts = dataset.load()
    most = _SECONDS_PER_PART * n_components
    runs = [_others(counts, n_components, seed, most) for seed in range(settings.repeats)]
    samples = {
        (name, residual): Sample.of([run[name][residual] for run in runs], "s")
        for name in runs[0]
        for residual in _RESIDUALS
    }
    for residual, what in words.items():
        for name in runs[0]:
            if name != _OURS:
                ours, peer = samples[_OURS, residual], samples[name, residual]
                yield Line(what, dataset.name, ours, peer, name, note=f"stopped after {most:g} s")
    start = random_start(counts, n_components, 0)
    began = time.process_time()
    _, reached = sklearn_nmf(counts, start, _ITERATIONS)
    seconds = time.process_time() - began
    left = _residual(*_sides(counts), (reached[0], reached[1].T.copy()))
    what = f"KKT residual after {_ITERATIONS} iterations, K = {n_components}"
    yield Line(what, dataset.name, None, note=f"{NMF_NAME}: {left:.2g} after {seconds:.1f} s")


def _others(counts: Any, n_components: int, seed: int, most: float) -> dict[str, Reached]:
    """Seconds of each algorithm to each residual."""
    from partwise.core.data import CountMatrix
    from partwise.passes.side import Floors
    from partwise.poisson.inference.state import scaled

    sides, start = _sides(counts), random_start(counts, n_components, seed)
    found = {}
    for name in (_OURS, "multiplicative"):
        found[name] = _timed(_fits(counts, n_components, name, start, most), sides, most)
    for name, solver in SOLVERS.items():
        floors = Floors.of(CountMatrix.build(counts), n_components)
        first = scaled(start[0].copy(), start[1].T.copy(), floors)
        held = floors.activations, floors.dictionary
        steps = solver(*sides, (first.activations, first.dictionary), held)
        found[name] = _timed(partial(_drive, steps), sides, most)
    return found


def _fits(counts: Any, n_components: int, inference: str, start: Any, most: float) -> Callable[[Any], object]:
    from partwise import PoissonNMF

    def fit(look: Callable[[Factors], bool]) -> object:
        def callback(iteration: int, state: Any, trace: Any) -> bool:
            return look((state.activations, state.dictionary))

        settings: dict[str, Any] = {"init": start, "max_iter": 10**6, "tol": 0.0, "progress": False}
        return PoissonNMF(n_components, inference=inference, callbacks=[callback], **settings).fit(counts)

    return fit


def _drive(steps: Iterator[Factors], look: Callable[[Factors], bool]) -> None:
    for factors in steps:
        if look(factors):
            return


def _timed(run: Callable[[Any], object], sides: tuple[Any, Any], most: float) -> Reached:
    """Seconds to each residual, looked at whenever the clock has grown by a tenth; it stands still meanwhile."""
    found: Reached = dict.fromkeys(_RESIDUALS)
    began = time.process_time()
    looking, latest = 0.0, 0.0

    def look(factors: Factors) -> bool:
        nonlocal looking, latest
        now = time.process_time()
        seconds = now - began - looking
        if seconds < 1.1 * latest and seconds < most:
            return False
        latest, left = seconds, _residual(*sides, factors)
        for residual in _RESIDUALS:
            if left < residual and found[residual] is None:
                found[residual] = seconds
        looking += time.process_time() - now
        return None not in found.values() or seconds > most

    run(look)
    return found


def _sides(counts: Any) -> tuple[Any, Any]:
    from partwise import CountMatrix
    from partwise.engines.local import LocalEngine
    from partwise.poisson.inference.passes import PoissonSide

    data = CountMatrix.build(counts)
    return PoissonSide(data, LocalEngine()), PoissonSide(data.transposed, LocalEngine())


def _residual(samples: Any, features: Any, factors: Factors) -> float:
    activations, dictionary = factors
    sides = (features, dictionary, activations), (samples, activations, dictionary)
    return max(float(side.kkt_residual(own, other)) for side, own, other in sides)
