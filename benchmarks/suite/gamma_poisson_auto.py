"""GammaPoissonNMF: the default beside the published MCEM-C on NIPS articles, K = 10, shape = rate = 1.

Half an hour or more: three runs of the published protocol, 100 iterations of 250 draws.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness.data import real, small_counts
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped

_SECONDS, _GAIN = Goal(30.0, "below"), Goal(0.0, "at least")
_N_COMPONENTS, _N_SCORED = 10, 200
_N_SEEDS, _N_PUBLISHED = 5, 3


def measure(settings: Settings) -> Iterator[Line]:
    """Seconds of ``auto``, and by how much it beats the best of three published runs on a fixed sample of documents."""
    dataset = real("nips_uci7605")
    if dataset.missing:
        yield skipped("seconds of auto", dataset.name, dataset.missing, _SECONDS)
        yield skipped("median of auto - best of mcem-c, nats", dataset.name, dataset.missing, _GAIN)
        return
    counts = dataset.load()
    _fit(small_counts(), "auto", 0)
    ours = [_fit(counts, "auto", seed) for seed in range(_N_SEEDS)]
    seconds = Sample.of([seconds for seconds, _ in ours], "s")
    yield Line("seconds of auto, 5 seeds", dataset.name, seconds, goal=_SECONDS)
    scores = [_score(counts, model) for _, model in ours]
    published = {"max_iter": 100, "draws_per_iter": 125, "burn_in_per_iter": 125}
    peers = [_fit(counts, "mcem-c", seed, **published) for seed in range(_N_PUBLISHED)]
    others = [_score(counts, model) for _, model in peers]
    best = max(value for value, _ in others)
    yield Line(
        "median of auto - best of mcem-c",
        dataset.name,
        Sample.of([value - best for value, _ in scores], "nats"),
        goal=_GAIN,
        note=f"mcem-c: {', '.join(f'{value:.0f}' for value, _ in others)} in {min(s for s, _ in peers):.0f} s or more;"
        f" auto: {', '.join(f'{value:.0f}' for value, _ in scores)}; standard errors up to"
        f" {max(error for _, error in scores + others):.1f}",
    )


def _fit(counts: Any, inference: str, seed: int, **parameters: Any) -> tuple[float, Any]:
    from partwise import GammaPoissonNMF

    model = GammaPoissonNMF(_N_COMPONENTS, inference=inference, random_state=seed, progress=False, **parameters)
    began = time.perf_counter()
    model.fit(counts)
    return time.perf_counter() - began, model


def _score(counts: Any, model: Any) -> tuple[float, float]:
    """Log-likelihood of the same 200 training documents, with its standard error."""
    from partwise.likelihood import smc

    rows = np.sort(np.random.default_rng(1).choice(counts.shape[0], _N_SCORED, replace=False))
    found = smc(counts[rows], model.components_.T, 1.0, 1.0, rng=0, n_draws=64, n_islands=4)
    return found.total, found.total_std_error
