"""All tables and figures, collection by collection: what is done so far is drawn before the next begins.

Figure 3: log-likelihood of documents in full vocabularies against draws.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from partwise.likelihood import auto
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.l2r import _pictures, against_exact
from partwise.reproduce.l2r._corpora import Corpus, draw_rows, enumerable, large, small
from partwise.reproduce.l2r._methods import EXACT_CONDITIONALS, FULL, QUICK, EvaluationSizes, LikelihoodMethod, methods


def totals(
    notebook: Notebook, corpus: Corpus, methods: list[LikelihoodMethod], sizes: EvaluationSizes
) -> Iterator[dict[str, Any]]:
    """Log-likelihood of all documents: of each repetition, and what `auto` says with its standard error.

    Yields what is known after each number of draws, as the last take hours.
    """
    chosen = corpus.rows(draw_rows(np.flatnonzero(np.diff(corpus.counts.indptr) > 1), sizes.large_documents))
    name = f"{corpus.name}, {sizes.large_documents} documents, all words"

    def reference() -> dict[str, float]:
        result = auto(chosen.counts, *chosen.model, rng=0, std_error=0.1)
        return {"total": result.total, "std_error": result.total_std_error, "tokens": float(chosen.lengths.sum())}

    def evaluate(method: LikelihoodMethod, n_draws: int, repeats: int) -> list[float]:
        return [method.estimate(chosen, n_draws, seed).total for seed in range(repeats)]

    known: dict[str, Any] = {
        "reference": notebook.step(f"{name}, auto", reference),
        "totals": {method.name: {} for method in methods},
    }
    for n_draws, repeats in sizes.large_repeats:
        for method in methods:
            if n_draws <= method.most_draws:
                step = f"{name}, {method.name}, {n_draws} draws, {repeats} times"
                known["totals"][method.name][str(n_draws)] = notebook.step(step, evaluate, method, n_draws, repeats)
        yield known


def make(notebook: Notebook) -> None:
    """Everything on the cropped collections, then Figure 3 on the whole ones."""
    sizes = QUICK if notebook.quick else FULL
    described: dict[str, dict[str, Any]] = {}
    dimensioned = Dimensioned()
    for name in sizes.small:
        corpus = small(notebook, name, sizes.small_sweeps)
        described[f"{name}, 100 words"] = describe(notebook, corpus)
        dimensioned.add(notebook, corpus, sizes)
        dimensioned.draw(notebook, sizes)
        write_table1(notebook, described)
    runs = {}
    # The three methods of the paper that scale to many topics, and two more.
    estimators = [m for m in methods(sizes.inner[:1], sizes.most_inner) if m.name != EXACT_CONDITIONALS]
    for name in sizes.large:
        corpus = large(notebook, name, sizes.most_topics, sizes.large_sweeps)
        described[f"{name}, all words"] = describe(notebook, corpus)
        write_table1(notebook, described)
        runs[name] = totals(notebook, corpus, estimators, sizes)
    realistic: dict[str, Any] = {}
    # Few draws of all collections first: the last draws of long documents take hours.
    for _ in sizes.large_repeats:
        for name, run in runs.items():
            realistic[name] = next(run)
            notebook.figure("figure3", _pictures.totals_by_draws(realistic))


def describe(notebook: Notebook, corpus: Corpus) -> Any:
    """One line of Table 1."""

    def line() -> dict[str, Any]:
        return {
            "documents": corpus.counts.shape[0],
            "words": corpus.counts.shape[1],
            "mean length": round(float(corpus.lengths.mean()), 2),
            "mean distinct words": round(corpus.counts.nnz / corpus.counts.shape[0], 2),
            "topics (active)": f"{corpus.dictionary.shape[1]} ({corpus.n_active})",
            "below 1e9 terms (Eq. 7)": int(corpus.tractable().size),
            "exact in 0.1 s each": int(np.count_nonzero(corpus.affordable())),
        }

    return notebook.step(f"table 1, {corpus.name}, {corpus.counts.shape[1]} words", line)


def write_table1(notebook: Notebook, lines: dict[str, dict[str, Any]]) -> None:
    """Table 1: the collections, cropped and whole."""
    rows = [[name, *line.values()] for name, line in lines.items()]
    notebook.table("Table 1", ["collection", *next(iter(lines.values()))], rows)


class Dimensioned:
    """Results on the collections of 100 words, where exact probabilities are known."""

    def __init__(self) -> None:
        self.by_draws: dict[str, Any] = {}
        self.by_length: dict[str, Any] = {}
        self.completion: dict[str, Any] = {}
        self.lengths: dict[str, float] = {}

    def add(self, notebook: Notebook, corpus: Corpus, sizes: EvaluationSizes) -> None:
        """Run everything on one collection."""
        estimators = methods(sizes.inner, sizes.most_inner)
        self.by_draws[corpus.name] = against_exact.by_draws(notebook, corpus, estimators, sizes)
        self.by_length[corpus.name] = against_exact.by_length(notebook, corpus, estimators, sizes)
        self.completion[corpus.name] = against_exact.calibrate(notebook, corpus, sizes)
        evaluated = enumerable(corpus, sizes.documents).lengths
        self.lengths[corpus.name] = notebook.step(f"{corpus.name}, mean length of enumerable documents", evaluated.mean)

    def draw(self, notebook: Notebook, sizes: EvaluationSizes) -> None:
        """Figures 1 and 2 and their companions, and the tables behind them."""
        notebook.figure("figure1", _pictures.left_to_right_beside_direct(self.by_draws, self.lengths, sizes.draws[-1]))
        notebook.figure("figure2", _pictures.curves_by_draws(self.by_draws, "divergence", "KL divergence"))
        notebook.figure("figure2_error", _pictures.curves_by_draws(self.by_draws, "error", "RMS error of log p (nats)"))
        notebook.figure("length", _pictures.errors_by_length(self.by_length))
        notebook.figure("completion", _pictures.completion(self.completion))
        _write_errors(notebook, self.by_draws, sizes)
        _write_completion(notebook, self.completion)


def _write_errors(notebook: Notebook, results: dict[str, Any], sizes: EvaluationSizes) -> None:
    """Error of log p and bias at each number of draws."""
    rows = []
    for name, curves in results.items():
        for method, points in curves.items():
            known = [points.get(str(n_draws)) for n_draws in sizes.draws]
            cells = [f"{np.mean(one['error']):.2g} ({one['bias']:+.2g})" if one else "" for one in known]
            rows.append([name, method, *cells])
    head = ["collection", "method", *(f"S = {n_draws}" for n_draws in sizes.draws)]
    notebook.table("Error of log p (and bias) by draws", head, rows)


def _write_completion(notebook: Notebook, results: dict[str, Any]) -> None:
    """Mean log probability of a held-out token, exact and by document completion, and how they go together."""
    rows = []
    for name, result in results.items():
        weights, exact, plugged = (np.array(result[key]) for key in ("n_tokens", "exact", "completion"))
        means = [f"{np.average(values, weights=weights):.4f}" for values in (exact, plugged)]
        rows.append([name, exact.size, *means, f"{np.corrcoef(exact, plugged)[0, 1]:.4f}"])
    head = ["collection", "documents", "exact", "document completion", "correlation over documents"]
    notebook.table("Document completion", head, rows)
