"""Figure 10: how well held-out cells are predicted, ten splits of five data sets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from statistics import median
from typing import Any, cast

from partwise.engines.local import LocalEngine
from partwise.plotting import plot_box_panels
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf._data import bits, random_split
from partwise.reproduce.nbmf._methods import (
    Method,
    baselines,
    extra_gibbs_methods,
    gibbs_methods,
    variational_methods,
)
from partwise.reproduce.nbmf._protocol import Protocol

Groups = dict[str, Callable[[Protocol], list[Method]]]

PAPER: Groups = {"samplers": gibbs_methods, "variational": variational_methods, "baselines": baselines}
FURTHER: Groups = {"further samplers": extra_gibbs_methods}
"""What the paper does not have, tried on the first split."""

OURS = ("Beta-Dir GS", "Dir-Dir GS, η = 1", "Beta-Dir VB")
"""What the paper introduces, marked in the figure; c-bICA too, but its seven boxes would hide the others."""

Scores = dict[str, dict[str, list[float]]]
"""Perplexities of each split, by data set and method."""


def score_all(notebook: Notebook, protocol: Protocol) -> Scores:
    """All perplexities, and the processor seconds of each fit (in the notebook).

    Split by split, so that a run that was cut off has some splits of every data set rather than all of a few.
    """
    scores: Scores = {name: {} for name in protocol.datasets}
    for groups, n_splits in ((PAPER, protocol.n_splits), (FURTHER, 1)):
        for split, dataset, (group, methods) in product(range(n_splits), protocol.datasets, groups.items()):
            found = notebook.step(step_name(group, dataset, split), partial(_score, dataset, split, methods(protocol)))
            for method, result in found.items():
                scores[dataset].setdefault(method, []).append(float(result["perplexity"]))
    return scores


def draw(notebook: Notebook, scores: Scores) -> None:
    """Boxes of all methods, a panel a data set; what is far worse than a constant is only named."""
    constant = {dataset: median(found["constant"]) for dataset, found in scores.items()}
    figure = plot_box_panels(
        {dataset: {name: found[name] for name in found if name != "constant"} for dataset, found in scores.items()},
        highlight=OURS,
        references=constant,
        tops={dataset: 1.15 * value for dataset, value in constant.items()},
    )
    notebook.figure("figure10_prediction", cast(Any, figure))


def processor_seconds(notebook: Notebook, protocol: Protocol) -> dict[str, float]:
    """Of the two samplers of the paper, all splits, by data set."""
    found = dict.fromkeys(protocol.datasets, 0.0)
    for dataset, split in product(protocol.datasets, range(protocol.n_splits)):
        fits = notebook.step(step_name("samplers", dataset, split), dict)
        found[dataset] += sum(float(fit["seconds"]) for fit in fits.values())
    return found


def step_name(group: str, dataset: str, split: int) -> str:
    """What a step of this figure is called."""
    return f"fig10, {group}, {dataset}, split {split}"


def _score(dataset: str, number: int, methods: Sequence[Method]) -> dict[str, dict[str, float]]:
    split = random_split(bits(dataset), number)
    found: dict[str, dict[str, float]] = {method.name: {} for method in methods}

    def one(position: int) -> None:
        method = methods[position]
        began = time.thread_time()
        probabilities = method.predict(split.train, number)
        seconds = time.thread_time() - began
        found[method.name] = {"perplexity": split.perplexity(probabilities), "seconds": seconds}

    LocalEngine(-1).for_each(one, range(len(methods)))
    return found
