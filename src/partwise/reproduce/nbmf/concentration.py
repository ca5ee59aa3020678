"""Section 6.2, sensitivity: held-out perplexity when the concentration is not that of the data."""

import numpy as np

from partwise.binary.model import BinaryModel
from partwise.core.keys import Key
from partwise.plotting.figures import BLUE, GREY, ORANGE, finish_axes, new_figure
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf._data import random_split
from partwise.reproduce.nbmf._methods import RunLengths, beta_dir_gs, run_lengths

_COMPONENTS = 10
_STYLES = ((BLUE, "o-"), (ORANGE, "s--"), (GREY, "^:"))


def make(notebook: Notebook) -> None:
    """Data from Beta-Dir with ten parts and all parameters 1, fitted with concentrations from 0.1 to 10."""
    lengths = run_lengths(notebook.quick)
    figure = new_figure(4.2, 2.8)
    ax = figure.add_subplot()
    rows = []
    for size, (colour, style) in zip(lengths.sizes, _STYLES, strict=False):
        runs = [
            notebook.step(f"concentration, size {size}, repeat {number}", _run, size, number, lengths)
            for number in range(lengths.n_repeats)
        ]
        mean = np.mean(runs, axis=0)
        ax.semilogx(lengths.concentrations, mean, style, color=colour, markersize=4, label=f"{size} x {size}")
        rows.append([size, *(f"{value:.4f}" for value in mean), f"{np.ptp(mean):.4f}"])
    label = "total concentration c of the fit (data: c = 10)"
    finish_axes(ax, label, "perplexity (nats per cell)", label_size=8, legend_size=7)
    notebook.figure("concentration", figure)
    head = ["size", *(f"{value:g}" for value in lengths.concentrations), "largest difference"]
    notebook.table("Concentration of the fit: mean perplexity", head, rows)


def _run(size: int, number: int, lengths: RunLengths) -> list[float]:
    bits = BinaryModel("beta-dir", _COMPONENTS).simulate(Key(size).for_chain(number), size, size).bits
    split = random_split(bits.astype(np.float64), number)
    found = []
    for concentration in lengths.concentrations:
        model = beta_dir_gs(lengths, number, concentration=concentration)
        # Small matrices: a quarter of the sweeps is plenty.
        model.set_params(n_components=_COMPONENTS, burn_in=lengths.burn_in // 4, n_draws=lengths.n_draws // 4 + 1)
        found.append(split.perplexity(model.fit(split.train).predict_proba()))
    return found
