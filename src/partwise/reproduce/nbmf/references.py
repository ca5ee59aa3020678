"""The splits that the authors' code was run on, and its perplexities there."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf._data import reference_split
from partwise.reproduce.nbmf._methods import beta_dir_gs, beta_dir_vb, bica
from partwise.reproduce.nbmf._protocol import Protocol

REFERENCES: dict[str, dict[str, float]] = {
    "animals": {"Beta-Dir GS": 0.530, "Beta-Dir VB": 0.477, "bICA-5": 0.499},
    "parliament": {"Beta-Dir GS": 0.334, "Beta-Dir VB": 0.319, "bICA-5": 0.330},
    "lastfm": {"Beta-Dir GS": 0.163, "bICA-5": 0.160},
}
"""Of the authors' code, in short chains that start from a variational fit with ten parts."""

SPLITS = {"animals": (1, 2, 3), "parliament": (1, 2), "lastfm": (1,)}


def compare(notebook: Notebook, protocol: Protocol) -> list[dict[str, Any]]:
    """A line for each data set and method: the reference, and ours from random labels and from a variational fit."""
    lines = []
    for dataset, references in REFERENCES.items():
        if notebook.quick and dataset not in protocol.datasets:
            continue
        for method, reference in references.items():
            runs = [
                notebook.step(
                    f"references, {dataset}, split {number}, {method}", partial(_run, method, dataset, number, protocol)
                )
                for number in SPLITS[dataset]
            ]
            lines.append(
                {
                    "data": dataset,
                    "method": method,
                    "reference": reference,
                    **{start: float(np.mean([run[start] for run in runs])) for start in runs[0]},
                }
            )
    return lines


def _run(method: str, dataset: str, number: int, protocol: Protocol) -> dict[str, float]:
    split = reference_split(dataset, number)
    if method == "Beta-Dir GS":
        makers = {start: partial(beta_dir_gs, protocol, number, init=start) for start in ("random", "vb")}
    elif method == "Beta-Dir VB":
        makers = {"random": partial(beta_dir_vb, protocol, number)}
    else:
        makers = {"random": partial(bica, 5, protocol, number)}
    return {start: split.perplexity(make().fit(split.train).predict_proba()) for start, make in makers.items()}
