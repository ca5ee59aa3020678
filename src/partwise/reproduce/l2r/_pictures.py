"""The figures, in the paper's layout: one panel per collection, one line per method."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from partwise.plotting.figures import GREY, Figure, finish_axes, grid, new_figure
from partwise.reproduce.l2r._methods import EXACT_CONDITIONALS, sampled

# Colours of Okabe and Ito; a method has the same in all figures.
_STYLES: dict[str, tuple[str, str]] = {
    "DS": ("#999999", "v"),
    "HM": ("#CC79A7", "^"),
    sampled(1): ("#D55E00", "o"),
    sampled(10): ("#E69F00", "s"),
    sampled(100): ("#C8B400", "D"),
    EXACT_CONDITIONALS: ("#000000", "x"),
    "annealed": ("#009E73", "P"),
    "smc": ("#0072B2", "*"),
}
_PANEL = 2.7, 2.3


def curves_by_draws(results: Mapping[str, Any], measure: str, y_label: str) -> Figure:
    """Figure 2: mean and standard error over the repetitions against draws."""
    figure, axes = _panels(list(results), "number of draws S", y_label)
    for ax, curves in zip(axes, results.values(), strict=False):
        for name, points in curves.items():
            draws = [int(n_draws) for n_draws in points]
            values = np.array([np.asarray(point[measure], dtype=np.float64) for point in points.values()])
            _line(ax, name, draws, values)
        ax.set(xscale="log", yscale="log")
    return _legend(figure, axes[0])


def left_to_right_beside_direct(results: Mapping[str, Any], lengths: Mapping[str, float], n_draws: int) -> Figure:
    """Figure 1: divergence of direct sampling over that of other methods, collections by mean length."""
    figure = new_figure(5.2, 3.0)
    ax = figure.add_subplot()
    names = sorted(results, key=lengths.__getitem__)
    for rival in (sampled(1), EXACT_CONDITIONALS, "smc"):
        color, marker = _STYLES[rival]
        found = [[np.mean(results[name][key][str(n_draws)]["divergence"]) for key in ("DS", rival)] for name in names]
        ax.plot([direct / ours for direct, ours in found], marker, color=color, label=rival, markersize=7)
    ax.axhline(1.0, color=GREY, linewidth=0.8, linestyle=":")
    ax.set_yscale("log")
    ax.set_xticks(range(len(names)), [f"{name}\n{lengths[name]:.1f}" for name in names])
    ax.margins(x=0.08)
    labels = "collection, with the mean length of its documents (tokens)", "divergence of DS / of the method"
    finish_axes(ax, *labels, title=f"S = {n_draws:,}", label_size=9, tick_size=7)
    return _legend(figure, ax)


def errors_by_length(results: Mapping[str, Any]) -> Figure:
    """Error of log p against the length of documents."""
    n_draws = next(iter(results.values()))["n_draws"]
    figure, axes = _panels(list(results), "length of the document (tokens)", f"RMS error (nats), S = {n_draws}")
    for ax, result in zip(axes, results.values(), strict=False):
        for name, errors in result["errors"].items():
            _line(ax, name, result["lengths"], np.asarray(errors, dtype=np.float64)[:, None])
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_yscale("log")
    return _legend(figure, axes[0])


def totals_by_draws(results: Mapping[str, Any]) -> Figure:
    """Figure 3: log-likelihood of a token against draws, with what `auto` says as a line."""
    figure, axes = _panels(list(results), "number of draws S", "log-likelihood per token (nats)")
    for ax, result in zip(axes, results.values(), strict=False):
        reference, tokens = result["reference"], result["reference"]["tokens"]
        level = reference["total"] / tokens
        ax.axhline(level, color=GREY, linewidth=1.0, linestyle=":", label="auto")
        lowest = level
        for name, points in result["totals"].items():
            values = np.array([np.mean(totals) for totals in points.values()]) / tokens
            # Direct sampling is so far below that it would hide all the others.
            if name != "DS":
                _line(ax, name, [int(n_draws) for n_draws in points], values[:, None])
                lowest = min(lowest, values.min())
        ax.set_xscale("log")
        high = ax.get_ylim()[1]
        ax.set_ylim(lowest - 0.15 * (high - lowest), high)
    return _legend(figure, axes[0])


def completion(results: Mapping[str, Any]) -> Figure:
    """Document completion against the exact predictive probability, one point per document."""
    figure, axes = _panels(list(results), "exact log p per held-out token (nats)", "the same by completion (nats)")
    for ax, result in zip(axes, results.values(), strict=False):
        exact, plugged = np.array(result["exact"]), np.array(result["completion"])
        ax.scatter(exact, plugged, s=6, color="#0072B2", alpha=0.5, linewidths=0)
        ends = min(exact.min(), plugged.min()), max(exact.max(), plugged.max())
        ax.plot(ends, ends, color=GREY, linewidth=0.8, linestyle=":")
        ax.locator_params(nbins=5)
    return figure


def _line(ax: Any, name: str, positions: Sequence[float], values: Any) -> None:
    """A line through the means over repetitions, with standard errors where there are several."""
    color, marker = _STYLES[name]
    mean = values.mean(axis=1)
    bars = values.std(axis=1, ddof=1) / np.sqrt(values.shape[1]) if values.shape[1] > 1 else None
    style = {"color": color, "marker": marker, "markersize": 4.5, "linewidth": 1.2, "label": name}
    ax.errorbar(positions, mean, bars, capsize=2, elinewidth=0.8, **style)


def _panels(names: list[str], x_label: str, y_label: str) -> tuple[Figure, list[Any]]:
    rows, columns = grid(len(names), None, 2 if len(names) == 4 else 3)
    figure = new_figure(max(columns, 2) * _PANEL[0], rows * _PANEL[1] + 0.5)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax, name in zip(axes, names, strict=False):
        finish_axes(ax, title=name, title_place="center", tick_size=7)
        ax.grid(visible=True, which="major", linewidth=0.3)
    for ax in axes[len(names) :]:
        ax.set_visible(False)
    # Not figure.supxlabel, which a legend below the panels would cover.
    for ax in axes[max(0, len(names) - columns) : len(names)]:
        ax.set_xlabel(x_label, fontsize=8)
    figure.supylabel(y_label, fontsize=9)
    return figure, axes


def _legend(figure: Figure, ax: Any) -> Figure:
    handles, labels = ax.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    columns = 5 if len(unique) == 5 else 4
    figure.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=columns, fontsize=7, frameon=False)
    return figure
