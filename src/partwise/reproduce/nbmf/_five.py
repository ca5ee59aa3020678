"""Fits of one data set by the five methods whose dictionaries the paper shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from partwise.plotting import largest_parts, plot_dictionary
from partwise.plotting._figures import new_figure
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf._data import Floats, bits, negative_log_likelihood
from partwise.reproduce.nbmf._methods import beta_dir_gs, beta_dir_vb, bica, dir_dir_gs, logistic_pca
from partwise.reproduce.nbmf._protocol import Protocol

_SEED = 7
_DIGITS = 4


@dataclass(frozen=True)
class Fit:
    """What is kept of a fit.

    Attributes
    ----------
    dictionary
        Its largest parts x features; those of logistic PCA mapped to 0..1, as in the paper.
    n_active
        Parts that hold at least 1% of the cells.
    negative_log_likelihood
        Of the data that were fitted (Eq. 66).
    probabilities
        Of all cells, samples x features.
    """

    dictionary: Floats
    n_active: int
    negative_log_likelihood: float
    probabilities: Floats


def fit_five(
    notebook: Notebook, dataset: str, n_components: int, protocol: Protocol, *, n_parts: int
) -> dict[str, Fit]:
    """Beta-Dir GS, Beta-Dir VB, Dir-Dir GS, bICA-K and logPCA-K of all cells of a data set."""
    methods: dict[str, Callable[[], Any]] = {
        "Beta-Dir GS": partial(beta_dir_gs, protocol, _SEED),
        "Beta-Dir VB": partial(beta_dir_vb, protocol, _SEED),
        "Dir-Dir GS": partial(dir_dir_gs, protocol, _SEED),
        f"bICA-{n_components}": partial(bica, n_components, protocol, _SEED),
        f"logPCA-{n_components}": partial(logistic_pca, n_components, protocol, _SEED),
    }
    found = {}
    for name, make in methods.items():
        kept = notebook.step(f"dictionaries, {dataset}, {name}", partial(_fit, make, dataset, n_parts))
        found[name] = Fit(np.array(kept["dictionary"]), kept["n_active"], kept["nll"], np.array(kept["probabilities"]))
    return found


def _fit(make: Callable[[], Any], dataset: str, n_parts: int) -> dict[str, Any]:
    truth = bits(dataset)
    model = make().fit(truth)
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
    fits: dict[str, Fit],
    labels: Sequence[str],
    *,
    groups: Sequence[str] | None = None,
    features: Sequence[int] | None = None,
) -> None:
    """The dictionaries side by side, rows in one order: by group, or by the parts of the first."""
    n_rows = len(labels) if features is None else len(features)
    figure = new_figure(8.0, 0.6 + 0.085 * n_rows)
    first = next(iter(fits.values())).dictionary
    rows = np.arange(len(labels)) if features is None else np.asarray(features, dtype=np.int64)
    if groups is None:
        strongest = first[:, rows].argmax(axis=0)
        rows = rows[np.lexsort((-first[:, rows].max(axis=0), strongest))]
    axes = figure.subplots(1, len(fits))
    for position, (ax, (method, fit)) in enumerate(zip(axes, fits.items(), strict=True)):
        last = position == len(fits) - 1
        plot_dictionary(
            fit.dictionary,
            labels,
            features=rows,
            groups=groups,
            parts=range(fit.dictionary.shape[0]),
            show_names=position == 0,
            title=method,
            ax=ax,
        )
        for text in () if last else list(ax.texts):
            text.remove()
    notebook.figure(name, figure)
