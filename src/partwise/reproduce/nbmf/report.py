"""The tables: ours beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from partwise.reproduce._tables import table
from partwise.reproduce.nbmf.prediction import Scores


@dataclass(frozen=True)
class Results:
    """What the steps found; lines are dictionaries with the same keys."""

    parliament: Sequence[Mapping[str, Any]]
    dictionaries: Sequence[Mapping[str, Any]]
    references: Sequence[Mapping[str, Any]]
    dir_dir: Sequence[Mapping[str, Any]]
    concentration: Sequence[Mapping[str, Any]]
    concentrations: Sequence[float]
    scores: Scores
    seconds: Mapping[str, float]


def sections(results: Results) -> dict[str, str]:
    """All tables, by their titles."""
    return {
        "Parliament: negative log-likelihood of the data (Section 6.3.1)": _parliament(results),
        "Dictionaries: negative log-likelihood and active parts (Section 6.3.2, 6.3.3)": _dictionaries(results),
        "Held-out perplexity, median of the splits (Figure 10; one split of other methods)": _prediction(results),
        "Splits of the authors' code: mean perplexity": _references(results),
        "Dir-Dir: second concentration and start": _dir_dir(results),
        "Concentration of the fit: mean perplexity": _concentration(results),
        "Processor seconds of the two samplers of the paper, all splits": _seconds(results),
    }


def _parliament(results: Results) -> str:
    rows = [
        (line["method"], f"{line['paper']:,}", f"{line['ours']:,.0f}", str(line["active"]))
        for line in results.parliament
    ]
    return table(("method", "paper", "partwise", "active parts"), rows)


def _dictionaries(results: Results) -> str:
    rows = [
        (line["data"], line["method"], f"{line['ours']:,.0f}", str(line["active"])) for line in results.dictionaries
    ]
    return table(("data", "method", "partwise", "active parts"), rows)


def _prediction(results: Results) -> str:
    datasets = list(results.scores)
    methods = list(dict.fromkeys(method for found in results.scores.values() for method in found))
    rows = []
    for method in methods:
        found = [results.scores[dataset].get(method) for dataset in datasets]
        rows.append((method, *("" if values is None else f"{median(values):.4f}" for values in found)))
    return table(("method", *datasets), rows)


def _references(results: Results) -> str:
    rows = []
    for line in results.references:
        starts = [f"{line[start]:.4f}" if start in line else "" for start in ("random", "vb")]
        best = min(line[start] for start in ("random", "vb") if start in line)
        verdict = "better" if best < line["reference"] else f"{best - line['reference']:+.4f}"
        rows.append((line["data"], line["method"], f"{line['reference']:.3f}", *starts, verdict))
    head = ("data", "method", "authors' code", "from random labels", "from a variational fit", "best against it")
    return table(head, rows)


def _dir_dir(results: Results) -> str:
    rows = [
        (
            line["model"],
            line["start"],
            f"{line['parliament']:,.0f}",
            str(line["parliament_active"]),
            f"{line['parliament_log_joint']:,.0f}",
            f"{line['paleo']:.4f}",
            str(line["paleo_active"]),
            f"{line['paleo_log_joint']:,.0f}",
        )
        for line in results.dir_dir
    ]
    head = ("model", "start", "parliament, NLL", "active", "log joint", "paleo, perplexity", "active", "log joint")
    return table(head, rows)


def _concentration(results: Results) -> str:
    rows = [
        (str(line["size"]), *(f"{value:.4f}" for value in line["perplexity"]), f"{line['range']:.4f}")
        for line in results.concentration
    ]
    return table(("size", *(f"{value:g}" for value in results.concentrations), "largest difference"), rows)


def _seconds(results: Results) -> str:
    total = sum(results.seconds.values())
    rows = [(name, f"{value:,.0f}") for name, value in results.seconds.items()]
    return table(
        ("data", "seconds"), [*rows, ("all, one core", f"{total:,.0f}"), ("all, two cores", f"{total / 2:,.0f}")]
    )
