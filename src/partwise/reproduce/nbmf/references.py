"""The splits that the authors' code was run on, and its perplexities there."""

from functools import partial
from typing import Any

import numpy as np

from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf._data import reference_split
from partwise.reproduce.nbmf._methods import RunLengths, beta_dir_gs, beta_dir_vb, bica, run_lengths

REFERENCES: dict[str, dict[str, float]] = {
    "animals": {"Beta-Dir GS": 0.530, "Beta-Dir VB": 0.477, "bICA-5": 0.499},
    "parliament": {"Beta-Dir GS": 0.334, "Beta-Dir VB": 0.319, "bICA-5": 0.330},
    "lastfm": {"Beta-Dir GS": 0.163, "bICA-5": 0.160},
}
"""Of the authors' code, in short chains that start from a variational fit with ten parts."""

SPLITS = {"animals": (1, 2, 3), "parliament": (1, 2), "lastfm": (1,)}


def make(notebook: Notebook) -> None:
    """The comparison as a table."""
    write(notebook, compare(notebook, run_lengths(notebook.quick)))


def compare(notebook: Notebook, lengths: RunLengths) -> list[dict[str, Any]]:
    """A line for each data set and method: the reference, and ours from random labels and from a variational fit."""
    lines = []
    for dataset, references in REFERENCES.items():
        if notebook.quick and dataset not in lengths.datasets:
            continue
        for method, reference in references.items():
            runs = [
                notebook.step(f"references, {dataset}, split {n}, {method}", _run, method, dataset, n, lengths)
                for n in SPLITS[dataset]
            ]
            means = {start: float(np.mean([run[start] for run in runs])) for start in runs[0]}
            lines.append({"data": dataset, "method": method, "reference": reference, **means})
    return lines


def write(notebook: Notebook, lines: list[dict[str, Any]]) -> None:
    """The table in Markdown."""
    rows = []
    for line in lines:
        starts = {start: line[start] for start in ("random", "vb") if start in line}
        behind = min(starts.values()) - line["reference"]
        cells = [f"{starts[start]:.4f}" if start in starts else "" for start in ("random", "vb")]
        verdict = "better" if behind < 0 else f"{behind:+.4f}"
        rows.append([line["data"], line["method"], f"{line['reference']:.3f}", *cells, verdict])
    head = ["data", "method", "authors' code", "from random labels", "from a variational fit", "best against it"]
    notebook.table("Splits of the authors' code: mean perplexity", head, rows)


def _run(method: str, dataset: str, number: int, lengths: RunLengths) -> dict[str, float]:
    split = reference_split(dataset, number)
    if method == "Beta-Dir GS":
        makers = {start: partial(beta_dir_gs, lengths, number, init=start) for start in ("random", "vb")}
    elif method == "Beta-Dir VB":
        makers = {"random": partial(beta_dir_vb, lengths, number)}
    else:
        makers = {"random": partial(bica, 5, lengths, number)}
    return {start: split.perplexity(make().fit(split.train).predict_proba()) for start, make in makers.items()}
