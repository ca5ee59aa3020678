"""Likelihood estimators: error of log p at equal processor time.

Root mean squared error against exact values, over documents drawn by seed from the longer half of those of at most 120
tokens. `left_to_right` is tuned: at each time it has the best of all draws S, inner draws S' (or exact conditionals)
and numbers of chains, interpolated between the settings measured. The curves are drawn to ``out/likelihood_error.png``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.curves import draw_curves
from benchmarks.harness.documents import Documents, cpu_seconds, drawn, published
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped

Floats = NDArray[np.float64]

_CASES = {"twitter100": (100, Goal(15, "at least")), "nips100": (40, Goal(50, "at least"))}
_DRAWS = (2, 5, 10, 30, 100, 300)
_INNER: tuple[dict[str, Any], ...] = (
    {"n_inner": 1},
    {"n_inner": 10},
    {"n_inner": 100},
    {"conditionals": "exact"},
)
_MOST_INNER = 3000  # S x S' beyond which the inner draws are never worth their time
_PARTICLES = {64: 2, 128: 4, 512: 16, 2048: 16, 8192: 16}
_COMPARED = (128, 512, 2048)


@dataclass(frozen=True)
class Setting:
    """What was run, with milliseconds of CPU time per document and the error, one of each for each repeat."""

    label: str
    n_draws: int
    times: Floats
    errors: Floats


def measure(settings: Settings) -> Iterator[Line]:
    """`smc` beside `left_to_right` on the same streams and kernels of draws."""
    curves = {}
    for name, (n_documents, goal) in _CASES.items():
        documents = published(name)
        if isinstance(documents, str):
            yield skipped("error of log p at equal time", name, documents, goal)
            continue
        ours, peers = _run(drawn(documents, n_documents, most_tokens=120), settings.repeats)
        curves[name] = {"smc": _points(ours), "left_to_right, best of all settings": _points(peers)}
        for setting in ours:
            if setting.n_draws in _COMPARED:
                yield _line(name, setting, peers, goal)
    if curves:
        draw_curves("likelihood_error.png", curves, "CPU time per document (ms)", "RMS error of log p (nats)")


def _run(documents: Documents, repeats: int) -> tuple[list[Setting], list[Setting]]:
    from partwise.likelihood import exact, left_to_right, smc

    truth = exact(documents.counts, *documents.model, max_cost=np.inf).values

    def one(label: str, estimator: Any, n_draws: int, **options: Any) -> Setting:
        estimator(documents.counts[:1], *documents.model, rng=0, n_draws=n_draws, **options)
        runs = [
            cpu_seconds(estimator, documents.counts, *documents.model, rng=seed, n_draws=n_draws, **options)
            for seed in range(repeats)
        ]
        times = np.array([1e3 * seconds / truth.size for seconds, _ in runs])
        return Setting(label, n_draws, times, np.array([_rms(result.values - truth) for _, result in runs]))

    ours = [one("smc", smc, n_draws, n_islands=n_islands) for n_draws, n_islands in _PARTICLES.items()]
    peers = [
        one(f"S = {n_draws}, {inner}, {n_chains} chains", left_to_right, n_draws, n_chains=n_chains, **inner)
        for n_draws in _DRAWS
        for inner in _INNER
        for n_chains in (1, n_draws)
        if n_draws * inner.get("n_inner", 1) <= _MOST_INNER
    ]
    return ours, peers


def _rms(errors: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def _points(settings: list[Setting]) -> tuple[Floats, Floats]:
    """Times and errors of those settings that no other beats in both."""
    points = sorted((float(np.median(s.times)), float(np.median(s.errors))) for s in settings)
    best = [point for i, point in enumerate(points) if all(point[1] < other[1] for other in points[:i])]
    return np.array([time for time, _ in best]), np.array([error for _, error in best])


def _line(name: str, ours: Setting, peers: list[Setting], goal: Goal) -> Line:
    times, errors = _points(peers)
    budget = float(np.median(ours.times))
    at_budget = float(np.exp(np.interp(np.log(budget), np.log(times), np.log(errors))))
    nearest = min(peers, key=lambda s: (np.median(s.times) > 1.2 * budget, np.median(s.errors)))
    return Line(
        f"error of log p at {budget:.2g} ms per document",
        name,
        Sample.of(ours.errors.tolist(), "nats"),
        Sample.of([at_budget] * ours.errors.size, "nats"),
        "left_to_right, tuned",
        goal=goal,
        note=f"smc with {ours.n_draws} particles; left_to_right best near {nearest.label}",
    )
