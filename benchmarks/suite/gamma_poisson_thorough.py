"""GammaPoissonNMF: marginal log-likelihood against CPU seconds on NIPS articles, the default beside published MCEM.

K = 10, shape = rate = 1; log-likelihood of the same 200 training documents by sequential Monte Carlo. The runs are
those of ``partwise reproduce gap --full -o out``: what is in ``out/gap`` is taken over, and the rest is made there, in
some hours. Curves are drawn to ``out``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness.data import real
from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped
from benchmarks.harness.processes import ROOT

_SECONDS, _GAIN = Goal(30.0, "below"), Goal(0.0, "at least")


def measure(settings: Settings) -> Iterator[Line]:
    """Seconds of ``auto``, and by how much it beats the best run of each other algorithm."""
    dataset = real("nips_uci7605")
    if dataset.missing:
        yield skipped("thorough", dataset.name, dataset.missing, _SECONDS)
        yield skipped("auto - best of mcem-c", dataset.name, dataset.missing, _GAIN)
        return
    from partwise.plotting import save_figure
    from partwise.reproduce._notebook import Notebook
    from partwise.reproduce.gap import nips

    runs = nips.curves(Notebook(ROOT / "out" / "gap", quick=False), dataset.load())
    save_figure(nips.likelihoods(runs), ROOT / "out" / "gamma_poisson_thorough.png", dpi=110)
    ends = {name: [run["scores"][-1] for run in found] for name, found in runs.items()}
    seconds = {name: [sum(run["seconds"]) for run in found] for name, found in runs.items()}
    best, seed = max(ends["mcem-c"]), int(np.argmax(ends["mcem-c"]))
    # The peer of each seed is one and the same run: the best.
    whole = Sample.of([seconds["mcem-c"][seed]] * len(runs["thorough"]), "CPU s")
    peer = f"mcem-c, {len(runs['mcem-c'][seed]['norms'])} iterations of 250 draws, the best of its seeds"
    yield Line(
        "thorough, the whole fit",
        dataset.name,
        Sample.of(seconds["thorough"], "CPU s"),
        goal=_SECONDS,
        note=_told(ends["thorough"]),
    )
    until = Sample.of([_until(run, best) for run in runs["thorough"]], "CPU s")
    yield Line("thorough, until it stays ahead of the end of the peer", dataset.name, until, whole, peer)
    for name, found in runs.items():
        if name == "thorough":
            continue
        errors = max(run["errors"][-1] for run in (*found, *runs["thorough"]))
        yield Line(
            f"thorough - best of {name}",
            dataset.name,
            Sample.of([end - max(ends[name]) for end in ends["thorough"]], "nats"),
            goal=_GAIN if name == "mcem-c" else None,
            note=f"{name}: {_told(ends[name])}, {max(seconds[name]):.0f} CPU s; standard errors up to {errors:.1f}",
        )


def _until(run: dict[str, Any], value: float) -> float | None:
    """CPU seconds until a run stays above a value, at one of the iterations that were looked at."""
    behind = [place for place, score in enumerate(run["scores"]) if score <= value]
    first = behind[-1] + 1 if behind else 0
    return float(np.cumsum(run["seconds"])[run["marks"][first] - 1]) if first < len(run["marks"]) else None


def _told(values: list[float]) -> str:
    return ", ".join(f"{value:.0f}" for value in values)
