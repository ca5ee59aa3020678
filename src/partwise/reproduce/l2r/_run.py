"""All tables and figures, collection by collection: what is done so far is drawn before the next begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from partwise.reproduce._notebook import Notebook
from partwise.reproduce._tables import table
from partwise.reproduce.l2r import _pictures, against_exact, completion, convergence, table1
from partwise.reproduce.l2r._corpora import Corpus, large, small
from partwise.reproduce.l2r._methods import EXACT_CONDITIONALS, methods
from partwise.reproduce.l2r._protocol import Protocol, protocol
from partwise.reproduce.l2r._selection import enumerable


def run(output: Path, quick: bool) -> None:
    """Write everything to a folder; a run that was cut off goes on where it was.

    Parameters
    ----------
    output
        The folder.
    quick
        Few documents of the smallest collections.
    """
    notebook, sizes = Notebook(output, quick), protocol(quick)
    described: dict[str, dict[str, Any]] = {}
    dimensioned = Dimensioned()
    for name in sizes.small:
        corpus = small(notebook, name, sizes.small_sweeps)
        described[f"{name}, 100 words"] = table1.describe(notebook, corpus)
        dimensioned.add(notebook, corpus, sizes)
        dimensioned.draw(notebook, sizes)
        table1.write(notebook, described)
    realistic: dict[str, Any] = {}
    for name in sizes.large:
        corpus = large(notebook, name, sizes.most_topics, sizes.large_sweeps)
        described[f"{name}, all words"] = table1.describe(notebook, corpus)
        # The three methods of the paper that scale to many topics, and two more.
        estimators = [m for m in methods(sizes.inner[:1], sizes.most_inner) if m.name != EXACT_CONDITIONALS]
        table1.write(notebook, described)
        for known in convergence.totals(notebook, corpus, estimators, sizes):
            realistic[name] = known
            notebook.figure("figure3", _pictures.totals_by_draws(realistic))


class Dimensioned:
    """Results on the collections of 100 words, where exact probabilities are known."""

    def __init__(self) -> None:
        self.by_draws: dict[str, Any] = {}
        self.by_length: dict[str, Any] = {}
        self.completion: dict[str, Any] = {}
        self.lengths: dict[str, float] = {}

    def add(self, notebook: Notebook, corpus: Corpus, sizes: Protocol) -> None:
        """Run everything on one collection."""
        estimators = methods(sizes.inner, sizes.most_inner)
        self.by_draws[corpus.name] = against_exact.by_draws(notebook, corpus, estimators, sizes)
        self.by_length[corpus.name] = against_exact.by_length(notebook, corpus, estimators, sizes)
        self.completion[corpus.name] = completion.calibrate(notebook, corpus, sizes)
        self.lengths[corpus.name] = float(enumerable(corpus, sizes.documents).lengths.mean())

    def draw(self, notebook: Notebook, sizes: Protocol) -> None:
        """Figures 1 and 2 and their companions, and the tables behind them."""
        compared = _pictures.left_to_right_beside_direct(self.by_draws, self.lengths, sizes.draws[-1])
        notebook.figure("figure1", compared)
        notebook.figure("figure2", _pictures.curves_by_draws(self.by_draws, "divergence", "KL divergence"))
        notebook.figure("figure2_error", _pictures.curves_by_draws(self.by_draws, "error", "RMS error of log p"))
        notebook.figure("length", _pictures.errors_by_length(self.by_length))
        notebook.figure("completion", _pictures.completion(self.completion))
        notebook.section("Error of log p (and bias) by draws", _error_table(self.by_draws, sizes))
        notebook.section("Document completion", _completion_table(self.completion))


def _error_table(results: dict[str, Any], sizes: Protocol) -> str:
    """Error of log p and bias at each number of draws."""
    rows = []
    for name, curves in results.items():
        for method, points in curves.items():
            cells = [
                f"{np.mean(points[str(n_draws)]['error']):.2g} ({points[str(n_draws)]['bias']:+.2g})"
                if str(n_draws) in points
                else ""
                for n_draws in sizes.draws
            ]
            rows.append([name, method, *cells])
    return table(["collection", "method", *(f"S = {n_draws}" for n_draws in sizes.draws)], rows)


def _completion_table(results: dict[str, Any]) -> str:
    """Mean log probability of a held-out token, exact and by document completion, and how they go together."""
    rows = []
    for name, result in results.items():
        weights, exact, plugged = (np.array(result[key]) for key in ("n_tokens", "exact", "completion"))
        rows.append(
            [
                name,
                f"{exact.size}",
                f"{np.average(exact, weights=weights):.4f}",
                f"{np.average(plugged, weights=weights):.4f}",
                f"{np.corrcoef(exact, plugged)[0, 1]:.4f}",
            ]
        )
    return table(["collection", "documents", "exact", "document completion", "correlation over documents"], rows)
