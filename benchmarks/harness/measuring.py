"""Measuring inside a benchmark's process: fits with a clock that stands still while a callback looks at them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.data import small_counts

Floats = NDArray[np.float64]


def compile_kernels(**parameters: Any) -> float:
    """Fit a small problem in the way of the real one; returns the seconds, nearly all of them of the compiler."""
    from partwise import PoissonNMF

    counts = small_counts()
    settings = {"init": random_start(counts, 3, seed=0), "max_iter": 20, "tol": 0.0, "progress": False, **parameters}
    began = time.perf_counter()
    for inference in ("coordinate", "multiplicative"):
        PoissonNMF(3, inference=inference, **settings).fit(counts)
    return time.perf_counter() - began


class StoppedClock:
    """A callback that ends a fit when ``done`` says so, on a clock that leaves out the time ``done`` takes.

    The clock runs from the call of `fit_until`, so that checking and transposing the data count as they do in a peer's.
    """

    def __init__(self, done: Callable[[Any, Any], bool]) -> None:
        self._done = done
        self._looking = 0.0
        self.seconds: float | None = None
        self.iterations = 0
        self._began = time.perf_counter()

    def __call__(self, iteration: int, state: Any, trace: Any) -> bool:
        now = time.perf_counter()
        finished = self._done(state, trace)
        if finished:
            self.seconds, self.iterations = now - self._began - self._looking, iteration
        self._looking += time.perf_counter() - now
        return finished


def fit_until(
    done: Callable[[Any, Any], bool], counts: Any, n_components: int, *, max_iter: int, **parameters: Any
) -> StoppedClock:
    """Fit until ``done(state, trace)``; the clock's ``seconds`` stay None if that is never so."""
    from partwise import PoissonNMF

    model = PoissonNMF(n_components, max_iter=max_iter, tol=0.0, progress=False, **parameters)
    clock = StoppedClock(done)
    model.callbacks = [clock]
    model.fit(counts)
    return clock


def seconds_per_iteration(counts: Any, n_components: int, *, first: int, last: int, **parameters: Any) -> float:
    """Of iterations ``first + 1`` to ``last`` of a fit of ours."""
    from partwise import PoissonNMF

    model = PoissonNMF(n_components, max_iter=last, tol=0.0, progress=False, **parameters).fit(counts)
    elapsed = model.trace_["elapsed"]
    return float(elapsed[last - 1] - elapsed[first - 1]) / (last - first)


def random_start(counts: Any, n_components: int, seed: int) -> tuple[Floats, Floats]:
    """Activations and components as scikit-learn's ``init="random"`` draws them: half-normal, scaled to the mean."""
    rng = np.random.default_rng(seed)
    scale = np.sqrt(counts.mean() / n_components)
    n_rows, n_columns = counts.shape
    activations = scale * np.abs(rng.standard_normal((n_rows, n_components)))
    return activations, scale * np.abs(rng.standard_normal((n_components, n_columns)))


def log_likelihood(counts: Any, activations: Floats, components: Floats) -> float:
    """Σ x log rate - Σ rate in plain NumPy: minus the KL divergence, up to a constant of the data."""
    entries = counts.tocoo()
    dictionary = np.ascontiguousarray(components.T)
    total = -float(activations.sum(axis=0) @ dictionary.sum(axis=0))
    for start in range(0, entries.nnz, 2**16):
        part = slice(start, start + 2**16)
        rates = np.einsum("pk,pk->p", activations[entries.row[part]], dictionary[entries.col[part]])
        with np.errstate(divide="ignore"):  # a rate of 0 where there is a count: likelihood 0
            total += float(entries.data[part] @ np.log(rates))
    return total
