"""Figure 10: how well held-out cells are predicted, ten splits of five data sets."""

import time
from collections.abc import Callable
from itertools import product
from statistics import median
from typing import Any

from partwise.engines.local import LocalEngine
from partwise.plotting.figures import BLUE, GREY, ORANGE, FigureBase, finish_axes, panels, write_beside
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf import _methods
from partwise.reproduce.nbmf._data import bits, random_split

Groups = dict[str, Callable[[_methods.RunLengths], dict[str, _methods.Prediction]]]

PAPER: Groups = {
    "samplers": _methods.gibbs_methods,
    "variational": _methods.variational_methods,
    "baselines": _methods.baselines,
}
FURTHER: Groups = {"further samplers": _methods.extra_gibbs_methods}
"""What the paper does not have, tried on the first split."""

OURS = ("Beta-Dir GS", "Dir-Dir GS, η = 1", "Beta-Dir VB")
"""What the paper introduces, marked in the figure; c-bICA too, but its seven boxes would hide the others."""

Scores = dict[str, dict[str, list[float]]]
"""Perplexities of each split, by data set and method."""


def make(notebook: Notebook) -> None:
    """The figure and its tables."""
    lengths = _methods.run_lengths(notebook.quick)
    scores = score_all(notebook, lengths)
    notebook.figure("figure10_prediction", picture(scores))
    write_scores(notebook, scores)
    write_seconds(notebook, processor_seconds(notebook, lengths))


def score_all(notebook: Notebook, lengths: _methods.RunLengths) -> Scores:
    """All perplexities, and the processor seconds of each fit (in the notebook).

    Split by split, so that a run that was cut off has some splits of every data set rather than all of a few.
    """
    scores: Scores = {name: {} for name in lengths.datasets}
    for groups, n_splits in ((PAPER, lengths.n_splits), (FURTHER, 1)):
        for split, dataset, (group, methods) in product(range(n_splits), lengths.datasets, groups.items()):
            found = notebook.step(step_name(group, dataset, split), _score, dataset, split, methods(lengths))
            for method, result in found.items():
                scores[dataset].setdefault(method, []).append(float(result["perplexity"]))
    return scores


def picture(scores: Scores) -> FigureBase:
    """Boxes of all methods, a panel for each data set; what is far worse than a constant is only named."""
    figure, axes = panels(None, len(scores), 1, 1.0 + 0.22 * max(len(found) - 1 for found in scores.values()), 1.6)
    for ax, (dataset, found) in zip(axes, scores.items(), strict=True):
        constant = median(found["constant"])
        ax.axhline(constant, color=GREY, linewidth=0.8, linestyle=":")
        names = [name for name in found if name != "constant"]
        shown = {at: found[name] for at, name in enumerate(names) if min(found[name]) <= 1.15 * constant}
        look = {"showfliers": False, "patch_artist": True, "medianprops": {"color": "black", "linewidth": 1.2}}
        grey = {"whiskerprops": {"color": GREY}, "capprops": {"color": GREY}}
        drawn = ax.boxplot(list(shown.values()), positions=list(shown), widths=0.6, **look, **grey)
        for (at, sample), box in zip(shown.items(), drawn["boxes"], strict=True):
            marked = {"facecolor": ORANGE, "hatch": "///"} if names[at] in OURS else {"facecolor": BLUE}
            box.set(alpha=0.45, edgecolor=GREY, **marked)
            ax.plot([at] * len(sample), sample, "k.", markersize=2)
        for at in set(range(len(names))) - set(shown):
            where: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "center", "va": "top", "rotation": 90}
            write_beside(ax, f"{median(found[names[at]]):.3g}↑", (at, 1.0), size=6, **where)
        ax.set(ylim=(None, 1.15 * constant), xlim=(-0.6, len(names) - 0.4))
        # All panels have the same methods: the last names them.
        ax.set_xticks(range(len(names)), names if ax is axes[-1] else [], rotation=90)
        finish_axes(ax, y_label="nats per cell", title=dataset, label_size=8, tick_size=7)
    return figure


def write_scores(notebook: Notebook, scores: Scores) -> None:
    """Median perplexities of all methods."""
    rows = []
    for method in dict.fromkeys(method for found in scores.values() for method in found):
        cells = [f"{median(found[method]):.4f}" if method in found else "" for found in scores.values()]
        rows.append([method, *cells])
    title = "Held-out perplexity, median of the splits (Figure 10; one split of other methods)"
    notebook.table(title, ["method", *scores], rows)


def processor_seconds(notebook: Notebook, lengths: _methods.RunLengths) -> dict[str, float]:
    """Of the two samplers of the paper, all splits, by data set."""
    found = dict.fromkeys(lengths.datasets, 0.0)
    for dataset, split in product(lengths.datasets, range(lengths.n_splits)):
        fits = notebook.step(step_name("samplers", dataset, split), dict)
        found[dataset] += sum(float(fit["seconds"]) for fit in fits.values())
    return found


def write_seconds(notebook: Notebook, seconds: dict[str, float]) -> None:
    """Processor seconds by data set and in all."""
    total = sum(seconds.values())
    rows = {**seconds, "all, one core": total, "all, two cores": total / 2}
    title = "Processor seconds of the two samplers of the paper, all splits"
    notebook.table(title, ["data", "seconds"], [[name, f"{value:,.0f}"] for name, value in rows.items()])


def step_name(group: str, dataset: str, split: int) -> str:
    """What a step of this figure is called."""
    return f"fig10, {group}, {dataset}, split {split}"


def _score(dataset: str, number: int, methods: dict[str, _methods.Prediction]) -> dict[str, dict[str, float]]:
    split = random_split(bits(dataset), number)
    found: dict[str, dict[str, float]] = {name: {} for name in methods}

    def one(name: str) -> None:
        began = time.thread_time()
        probabilities = methods[name](split.train, number)
        seconds = time.thread_time() - began
        found[name] = {"perplexity": split.perplexity(probabilities), "seconds": seconds}

    LocalEngine(-1).for_each(one, list(methods))
    return found
