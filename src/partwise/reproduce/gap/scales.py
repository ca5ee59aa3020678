"""Figures 2 and 3: three algorithms at the scales 1, 10 and 100, with the exact likelihood at all of them."""

import time
from typing import Any

import numpy as np

from partwise import GammaPoissonNMF
from partwise.likelihood import exact
from partwise.plotting.figures import Figure, new_figure
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.gap._paper import ALGORITHMS, DICTIONARY, counts, followed

# Iterations at each scale, as in the paper for 1 and 100; and of the short version at all scales.
_ITERATIONS, _FEW = {1: 500, 10: 500, 100: 2000}, 60


def make(notebook: Notebook) -> None:
    """Compute and draw, and report."""
    results = {}
    for scale, n_iterations in _ITERATIONS.items():
        sizes = (_FEW, 100, 12) if notebook.quick else (n_iterations, 300, 40)
        told = f"scale {scale}"
        results[scale] = {name: notebook.step(f"{told}: {name}", _fit, scale, name, *sizes) for name in ALGORITHMS}
    best = {scale: notebook.step(f"scale {scale}: thorough", _best, scale) for scale in _ITERATIONS}
    notebook.figure("figures2_and_3", _picture(results, best))
    rows = []
    for scale, fits in results.items():
        ends = ", ".join(f"{name} {fit['cost'][-1]:.2f}" for name, fit in fits.items())
        ours = best[scale]
        rows.append(
            f"- Scale {scale}: variance / mean {ours['dispersion']:.1f}; C_ML at the end: {ends};"
            f" thorough {ours['cost']:.2f} in {ours['seconds']:.1f} s, the truth {ours['truth']:.2f}."
        )
    notebook.section("Figures 2 and 3", "\n".join(rows))


def _fit(scale: int, name: str, n_iterations: int, n_draws: int, n_values: int) -> dict[str, Any]:
    X = counts(scale)
    seen = followed(X, 3, name, n_iterations, n_draws)
    chosen = np.unique(np.geomspace(1, n_iterations, n_values).astype(int)) - 1
    return {
        "seconds": [*seen.seconds.values()],
        "norms": [dictionary.sum(axis=0) for dictionary in seen.kept.values()],
        "chosen": chosen,
        "cost": [-exact(X, seen.kept[i + 1], 1.0, 1.0).total for i in chosen],
    }


def _best(scale: int) -> dict[str, float]:
    X = counts(scale)
    began = time.process_time()
    model = GammaPoissonNMF(3, inference="thorough", random_state=0, progress=False).fit(X)
    seconds = time.process_time() - began
    table = X.toarray()
    return {
        "cost": -exact(X, model.components_.T, 1.0, 1.0).total,
        "truth": -exact(X, scale * DICTIONARY, 1.0, 1.0).total,
        "dispersion": float(np.mean(table.var(axis=0) / table.mean(axis=0))),
        "seconds": seconds,
    }


def _picture(results: dict[int, Any], best: dict[int, Any]) -> Figure:
    figure = new_figure(9.0, 5.2)
    axes = figure.subplots(2, len(results))
    for column, (scale, fits) in enumerate(results.items()):
        upper, lower = axes[0, column], axes[1, column]
        for name, fit in fits.items():
            color, seconds = ALGORITHMS[name], np.array(fit["seconds"])
            chosen = np.array(fit["chosen"])
            # The distance from the best that is known, so that a logarithm can be taken.
            floor = min(best[scale]["cost"], *(min(other["cost"]) for other in fits.values())) - 0.1
            upper.plot(seconds[chosen], np.array(fit["cost"]) - floor, color=color, label=name.upper())
            for k, norms in enumerate(np.array(fit["norms"]).T):
                lower.plot(seconds, norms, color=color, linewidth=0.9, alpha=0.9, label=name if k == 0 else None)
        upper.set_yscale("log")
        for ax in (upper, lower):
            ax.set_xscale("log")
            ax.tick_params(axis="x", which="minor", labelbottom=False)
        upper.set_title(f"{scale} × dictionary", fontsize=9)
        lower.set_xlabel("CPU seconds")
    axes[0, 0].set_ylabel("$C_{ML}$ $-$ best + 0.1 (nats)")
    axes[1, 0].set_ylabel("norms of the columns")
    axes[0, 0].legend(fontsize=8)
    return figure
