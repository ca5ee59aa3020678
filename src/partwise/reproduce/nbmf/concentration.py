"""Section 6.2, sensitivity: held-out perplexity when the concentration is not that of the data."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from partwise.binary.model import BinaryModel
from partwise.core.keys import Key
from partwise.plotting._figures import BLUE, GREY, ORANGE, new_figure
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf._data import random_split
from partwise.reproduce.nbmf._methods import beta_dir_gs
from partwise.reproduce.nbmf._protocol import Protocol

_COMPONENTS = 10
_STYLES = ((BLUE, "o-"), (ORANGE, "s--"), (GREY, "^:"))


def draw(notebook: Notebook, protocol: Protocol) -> list[dict[str, Any]]:
    """Data from Beta-Dir with ten parts and all parameters 1, fitted with concentrations from 0.1 to 10."""
    lines = []
    figure = new_figure(4.2, 2.8)
    ax = figure.add_subplot()
    for size, (colour, style) in zip(protocol.sizes, _STYLES, strict=False):
        runs = [
            notebook.step(f"concentration, size {size}, repeat {number}", partial(_run, size, number, protocol))
            for number in range(protocol.n_repeats)
        ]
        mean = np.mean(runs, axis=0)
        ax.semilogx(protocol.concentrations, mean, style, color=colour, markersize=4, label=f"{size} x {size}")
        lines.append({"size": size, "perplexity": mean.tolist(), "range": float(np.ptp(mean))})
    ax.set_xlabel("concentration of the fit (the data have 1 for each part)", fontsize=8)
    ax.set_ylabel("perplexity", fontsize=8)
    ax.legend(fontsize=7, frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    notebook.figure("concentration", figure)
    return lines


def _run(size: int, number: int, protocol: Protocol) -> list[float]:
    bits = BinaryModel("beta-dir", _COMPONENTS).simulate(Key(size).for_chain(number), size, size).bits
    split = random_split(bits.astype(np.float64), number)
    found = []
    for concentration in protocol.concentrations:
        model = beta_dir_gs(protocol, number, concentration=concentration)
        # Small matrices: a quarter of the sweeps is plenty.
        model.set_params(n_components=_COMPONENTS, burn_in=protocol.burn_in // 4, n_draws=protocol.n_draws // 4 + 1)
        found.append(split.perplexity(model.fit(split.train).predict_proba()))
    return found
