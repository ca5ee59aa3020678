"""Figures 6 to 9: five methods on who follows whom in parliament, on votes in the cold war and on fossil mammals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from partwise.kernels.arrays import Floats
from partwise.plotting import largest_parts, plot_dictionary, plot_matrix
from partwise.plotting.figures import new_figure
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf import _methods
from partwise.reproduce.nbmf._data import bits, feature_labels, negative_log_likelihood, parties

PAPER = {"Beta-Dir GS": 4863, "Beta-Dir VB": 4729, "Dir-Dir GS": 8930, "bICA-8": 4957, "logPCA-8": 1783}
"""Negative log-likelihoods of Section 6.3.1."""

_SEED = 7
_DIGITS = 4
_PARLIAMENT_COMPONENTS, _COMPONENTS = 8, 7
_MOST_ROWS = 100


@dataclass(frozen=True)
class DictionaryFit:
    """What is kept of a fit.

    Attributes
    ----------
    dictionary
        Its largest parts x features; those of logistic PCA mapped to 0..1, as in the paper.
    n_active
        Parts that hold at least 1% of the cells.
    nll
        Negative log-likelihood of the data that were fitted (Eq. 66).
    probabilities
        Of all cells, samples x features.
    """

    dictionary: Floats
    n_active: int
    nll: float
    probabilities: Floats


def make(notebook: Notebook) -> None:
    """All figures and both tables."""
    lengths = _methods.run_lengths(notebook.quick)
    write_parliament(notebook, _draw_parliament(notebook, lengths))
    rows = []
    for name, dataset in (("figure8_coldwar", "unvotes_coldwar_absna"), ("figure9_paleo", "paleo")):
        fits = fit_five(notebook, dataset, _COMPONENTS, lengths)
        often = np.sort(np.argsort(-np.nansum(bits(dataset), axis=0), kind="stable")[:_MOST_ROWS])
        draw_dictionaries(notebook, name, fits, feature_labels(dataset), features=[int(f) for f in often])
        rows += [[dataset, method, f"{fit.nll:,.0f}", fit.n_active] for method, fit in fits.items()]
    title = "Dictionaries: negative log-likelihood and active parts (Section 6.3.2, 6.3.3)"
    notebook.table(title, ["data", "method", "partwise", "active parts"], rows)


def _draw_parliament(notebook: Notebook, lengths: _methods.RunLengths) -> dict[str, DictionaryFit]:
    """Reconstructions and dictionaries."""
    fits = fit_five(notebook, "parliament", _PARLIAMENT_COMPONENTS, lengths)
    party = parties()
    figure = new_figure(9.0, 6.0)
    original, *others = figure.subplots(2, 3).flat
    plot_matrix(bits("parliament").T, row_groups=party, title="data", ax=original)
    for ax, (name, fit) in zip(others, fits.items(), strict=True):
        plot_matrix(fit.probabilities.T, row_groups=party, title=f"{name}: {fit.nll:,.0f}", ax=ax)
    notebook.figure("figure6_parliament", figure)
    draw_dictionaries(notebook, "figure7_parliament", fits, feature_labels("parliament"), groups=party)
    return fits


def write_parliament(notebook: Notebook, fits: dict[str, DictionaryFit]) -> None:
    """How well parliament is fitted, beside the paper's numbers."""
    rows = [[name, f"{PAPER[name]:,}", f"{fit.nll:,.0f}", fit.n_active] for name, fit in fits.items()]
    title = "Parliament: negative log-likelihood of the data (Section 6.3.1)"
    notebook.table(title, ["method", "paper", "partwise", "active parts"], rows)


def fit_five(
    notebook: Notebook, dataset: str, n_components: int, lengths: _methods.RunLengths
) -> dict[str, DictionaryFit]:
    """Beta-Dir GS, Beta-Dir VB, Dir-Dir GS, bICA-K and logPCA-K of all cells of a data set."""
    methods: dict[str, Callable[..., Any]] = {
        "Beta-Dir GS": _methods.beta_dir_gs,
        "Beta-Dir VB": _methods.beta_dir_vb,
        "Dir-Dir GS": _methods.dir_dir_gs,
        f"bICA-{n_components}": partial(_methods.bica, n_components),
        f"logPCA-{n_components}": partial(_methods.logistic_pca, n_components),
    }
    found = {}
    for name, make_model in methods.items():
        compute = partial(_fit, make_model, dataset, n_components, lengths)
        kept = notebook.step(f"dictionaries, {dataset}, {name}", compute)
        arrays = {key: np.array(kept[key]) for key in ("dictionary", "probabilities")}
        found[name] = DictionaryFit(n_active=kept["n_active"], nll=kept["nll"], **arrays)
    return found


def _fit(make_model: Callable[..., Any], dataset: str, n_parts: int, lengths: _methods.RunLengths) -> dict[str, Any]:
    truth = bits(dataset)
    model = make_model(lengths, _SEED).fit(truth)
    probabilities = model.predict_proba()
    dictionary = model.components_[largest_parts(model, n_parts)]
    if dictionary.min() < 0:
        dictionary = (dictionary - dictionary.min()) / (dictionary.max() - dictionary.min())
    return {
        "dictionary": np.round(dictionary, _DIGITS),
        "n_active": model.n_active_components_,
        "nll": negative_log_likelihood(truth, probabilities),
        "probabilities": np.round(probabilities, _DIGITS) if truth.size < 20_000 else [],
    }


def draw_dictionaries(
    notebook: Notebook,
    name: str,
    fits: dict[str, DictionaryFit],
    labels: Sequence[str],
    *,
    groups: Sequence[str] | None = None,
    features: Sequence[int] | None = None,
) -> None:
    """The dictionaries side by side, rows in one order: by group, or by the parts of the first."""
    rows = np.arange(len(labels)) if features is None else np.asarray(features, dtype=np.int64)
    figure = new_figure(8.0, 0.6 + 0.085 * rows.size)
    if groups is None:
        first = next(iter(fits.values())).dictionary[:, rows]
        rows = rows[np.lexsort((-first.max(axis=0), first.argmax(axis=0)))]
    axes = figure.subplots(1, len(fits))
    for ax, (method, fit) in zip(axes, fits.items(), strict=True):
        order: dict[str, Any] = {"features": rows, "groups": groups, "parts": range(fit.dictionary.shape[0])}
        plot_dictionary(fit.dictionary, labels, **order, show_names=ax is axes[0], title=method, ax=ax)
        # Names of groups stand beside the last dictionary alone.
        for text in list(ax.texts) if ax is not axes[-1] else ():
            text.remove()
    notebook.figure(name, figure)
