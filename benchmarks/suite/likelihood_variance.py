"""smc: variance x time beside plain sequential Monte Carlo.

Variance of log p over seeds, averaged over documents drawn by seed, times processor time. The peer draws each particle
by itself, resamples below half of the particles, and makes one collapsed Gibbs sweep at each resampling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness.documents import Documents, cpu_seconds, drawn, held_out, published
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped

_GOAL = Goal(10, "at least")
_N_SEEDS = 8
# What is left of ours when parts are switched off; draws stay stratified and in lanes.
_VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "without look-ahead": {"lookahead": 0.0},
    "without look-ahead, resampling below half": {"lookahead": 0.0, "resample_below": 0.5},
}


def measure(settings: Settings) -> Iterator[Line]:
    """Three corpora, from 5 tokens at K = 5 to 1,200 at K = 50."""
    for name, n_documents in (("twitter100", 100), ("nips100", 40)):
        documents = published(name)
        if isinstance(documents, str):
            yield skipped("variance x time", name, documents, _GOAL)
        else:
            yield from _lines(settings, drawn(documents, n_documents, most_tokens=120))
    fitted = held_out(50, 8, n_sweeps=100)
    if isinstance(fitted, str):
        yield skipped("variance x time", "nips_uci7605", fitted, _GOAL)
    else:
        yield from _lines(settings, fitted[0])


def _lines(settings: Settings, documents: Documents) -> Iterator[Line]:
    from benchmarks.harness.plain_smc import plain_smc
    from partwise.likelihood import smc

    plain = [_product(documents, plain_smc, repeat, n_draws=400) for repeat in range(settings.repeats)]
    for label, options in _VARIANTS.items():
        ours = [_product(documents, smc, repeat, n_draws=512, **options) for repeat in range(settings.repeats)]
        yield Line(
            f"variance x time, smc {label}",
            documents.name,
            Sample.of([product for product, _ in ours], "nats² ms"),
            Sample.of([product for product, _ in plain], "nats² ms"),
            "plain smc, one sweep per resampling",
            goal=_GOAL if not options else None,
            note=f"spread {ours[0][1]:.2g} beside {plain[0][1]:.2g} nats; {documents.lengths.mean():.0f} tokens",
        )


def _product(documents: Documents, estimator: Any, repeat: int, **options: Any) -> tuple[float, float]:
    """Mean variance over documents times milliseconds per document, and the root of that variance."""
    estimator(documents.counts[:1], *documents.model, rng=0, **options)
    seeds = range(repeat * _N_SEEDS, (repeat + 1) * _N_SEEDS)
    runs = [cpu_seconds(estimator, documents.counts, *documents.model, rng=seed, **options) for seed in seeds]
    variance = float(np.stack([result.values for _, result in runs]).var(axis=0, ddof=1).mean())
    milliseconds = 1e3 * float(np.median([seconds for seconds, _ in runs])) / documents.counts.shape[0]
    return variance * milliseconds, float(np.sqrt(variance))
