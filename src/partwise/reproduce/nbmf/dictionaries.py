"""Figures 8 and 9: dictionaries of votes in the cold war, and of fossil mammals."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf._data import bits, feature_labels
from partwise.reproduce.nbmf._five import draw_dictionaries, fit_five
from partwise.reproduce.nbmf._protocol import Protocol

_COMPONENTS = 7
_MOST_ROWS = 100


def draw(notebook: Notebook, protocol: Protocol) -> list[dict[str, Any]]:
    """Both figures; returns a line of the table for each method and data set."""
    lines = []
    for name, dataset in (("figure8_coldwar", "unvotes_coldwar_absna"), ("figure9_paleo", "paleo")):
        fits = fit_five(notebook, dataset, _COMPONENTS, protocol, n_parts=_COMPONENTS)
        labels = feature_labels(dataset)
        often = np.sort(np.argsort(-np.nansum(bits(dataset), axis=0), kind="stable")[:_MOST_ROWS])
        draw_dictionaries(notebook, name, fits, labels, features=[int(f) for f in often])
        lines += [
            {"data": dataset, "method": method, "ours": fit.negative_log_likelihood, "active": fit.n_active}
            for method, fit in fits.items()
        ]
    return lines
