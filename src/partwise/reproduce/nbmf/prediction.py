"""Figure 10: how well held-out cells are predicted, ten splits of five data sets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
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

GROUPS: dict[str, Callable[[Protocol], list[Method]]] = {
    "samplers": gibbs_methods,
    "variational": variational_methods,
    "baselines": baselines,
    "further samplers": extra_gibbs_methods,
}

OURS = ("Beta-Dir GS", "Dir-Dir GS, η = 1", "Beta-Dir VB")
"""What the paper introduces, marked in the figure; c-bICA too, but its seven boxes would hide the others."""

# Splits of a step: as many as are worked on at a time, so that what was cut off is not much.
_AT_ONCE = 2

Scores = dict[str, dict[str, list[float]]]
"""Perplexities of each split, by data set and method."""


def score_all(notebook: Notebook, protocol: Protocol) -> Scores:
    """All perplexities, and the processor seconds of each fit (in the notebook)."""
    scores: Scores = {name: {} for name in protocol.datasets}
    for dataset in protocol.datasets:
        for group, methods in GROUPS.items():
            for first in range(0, protocol.n_splits, _AT_ONCE):
                splits = range(first, min(first + _AT_ONCE, protocol.n_splits))
                compute = partial(_score, dataset, splits, methods(protocol))
                found = notebook.step(step_name(group, dataset, first), compute)
                for split in found:
                    for method, result in split.items():
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
    notebook.figure("fig10-prediction", cast(Any, figure))


def processor_seconds(notebook: Notebook, protocol: Protocol) -> dict[str, float]:
    """Of the two samplers of the paper, all splits, by data set."""
    found = {}
    for dataset in protocol.datasets:
        steps = [
            notebook.step(step_name("samplers", dataset, first), list)
            for first in range(0, protocol.n_splits, _AT_ONCE)
        ]
        found[dataset] = sum(float(fit["seconds"]) for step in steps for split in step for fit in split.values())
    return found


def step_name(group: str, dataset: str, first: int) -> str:
    """What a step of this figure is called."""
    return f"fig10, {group}, {dataset}, splits from {first}"


def _score(dataset: str, splits: Sequence[int], methods: Sequence[Method]) -> list[dict[str, Any]]:
    truth = bits(dataset)
    found: list[dict[str, Any]] = [{} for _ in splits]

    def one(position: int) -> None:
        split = random_split(truth, splits[position])
        for method in methods:
            began = time.thread_time()
            probabilities = method.predict(split.train, splits[position])
            seconds = time.thread_time() - began
            found[position][method.name] = {"perplexity": split.perplexity(probabilities), "seconds": seconds}

    LocalEngine(-1).for_each(one, range(len(splits)))
    return found
