"""Likelihood of held-out documents to a standard error of 0.3 nats each, K = 50.

nips_uci7605, 200 documents drawn by seed; the model was fitted by `BetaGammaPFA` to the other 1,300. Processor time of
one call of `auto`, after compilation, one thread.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.harness.documents import cpu_seconds, held_out
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped

_STD_ERROR = 0.3
_N_SWEEPS = 200


def measure(settings: Settings) -> Iterator[Line]:
    """``auto(..., std_error=0.3)``."""
    from partwise.likelihood import auto

    what, goal = "200 held-out documents, K = 50, standard error 0.3 each", Goal(60, "below")
    fitted = held_out(50, 200, n_sweeps=_N_SWEEPS)
    if isinstance(fitted, str):
        yield skipped(what, "nips_uci7605", fitted, goal)
        return
    documents, fitting = fitted
    auto(documents.counts[:1], *documents.model, rng=0, std_error=_STD_ERROR)
    runs = [
        cpu_seconds(auto, documents.counts, *documents.model, rng=seed, std_error=_STD_ERROR)
        for seed in range(settings.repeats)
    ]
    errors = np.stack([result.std_errors for _, result in runs])
    note = (
        f"{documents.lengths.mean():.0f} tokens per document; largest standard error {errors.max():.2g}, median"
        f" {np.median(errors):.2g}"
    )
    if len(runs) > 1:
        values = np.stack([result.values for _, result in runs])
        spread = np.sqrt(values.var(axis=0, ddof=1).mean())
        note += f", spread over {len(runs)} runs {spread:.2g}"
    note += f"; the fit took {fitting:.0f} s"
    yield Line(what, documents.name, Sample.of([seconds for seconds, _ in runs], "s"), goal=goal, note=note)
