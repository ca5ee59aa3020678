"""p(X) of the allocation model: error for the processor time, annealing beside token by token.

30 x 40 counts of about 3,000 tokens drawn with three parts, and the priors that they were drawn with. The figure is the
root mean square difference of log p(X) from the mean of the best runs, times the root of the processor seconds: what is
left after one second, as errors fall with the root of the number of islands.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness.documents import cpu_seconds
from benchmarks.harness.line import Line, Sample, Settings

_PRIORS = {"dictionary_concentration": 0.1, "activation_concentration": 0.3, "length_shape": 100.0, "length_rate": 1.0}
_EFFORTS: dict[str, dict[str, int]] = {"annealed": {"n_stages": 100}, "smc": {"n_stages": 640, "n_particles": 16}}
_DATA = "simulated, 30 x 40, seed 0"


def measure(settings: Settings) -> Iterator[Line]:
    """A line for as many parts as there are, and one for twice as many."""
    from partwise.datasets import simulate_allocation

    counts = simulate_allocation(30, 40, 3, random_state=0).table
    for n_components in (3, 6):
        found = {method: _runs(counts, n_components, method, settings.repeats) for method in _EFFORTS}
        # Unbiased on the scale of p: of two methods the one with the larger logarithms is nearer.
        centre = max(float(np.mean(values)) for _, values, _ in found.values())
        (ours, note), (peer, peer_note) = (_left(method, *found[method], centre) for method in _EFFORTS)
        what = f"error of log p(X) after one second, K = {n_components}"
        yield Line(what, _DATA, ours, peer, f"smc, {_effort('smc')}", note=f"annealed: {note}; smc: {peer_note}")


def _runs(counts: Any, n_components: int, method: str, repeats: int) -> tuple[list[float], list[float], list[float]]:
    """Processor seconds, values and reported errors, by seeds."""
    from partwise.allocation import log_marginal_likelihood

    runs = []
    with warnings.catch_warnings():
        # Of errors above 1 nat, which are reported.
        warnings.simplefilter("ignore")
        for seed in range(-1, repeats):
            effort = {**_EFFORTS[method], "n_islands": 16, "rng": max(seed, 0)}
            runs.append(cpu_seconds(log_marginal_likelihood, counts, n_components, method=method, **_PRIORS, **effort))
    # The first compiles.
    timed = runs[1:]
    return [s for s, _ in timed], [r.total for _, r in timed], [r.total_std_error for _, r in timed]


def _left(
    method: str, seconds: list[float], values: list[float], errors: list[float], centre: float
) -> tuple[Sample, str]:
    """What is left after a second by each run, and what they found."""
    left = [abs(value - centre) * np.sqrt(second) for value, second in zip(values, seconds, strict=True)]
    rms = float(np.sqrt(np.mean(np.square(left))))
    note = (
        f"{np.mean(values):.1f}, spread {np.std(values, ddof=min(1, len(values) - 1)):.2g}, reported error"
        f" {np.median(errors):.2g}, {np.median(seconds):.2g} s"
    )
    return Sample.of([rms], "nats"), note


def _effort(method: str) -> str:
    return ", ".join(f"{name}={value}" for name, value in _EFFORTS[method].items())
