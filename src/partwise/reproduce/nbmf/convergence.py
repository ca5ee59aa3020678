"""Figure 11: perplexity of held-out cells along the iterations of the variational methods."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from partwise.binary.estimator import BinaryNMF
from partwise.binary.inference.posterior import posterior_of_counts
from partwise.binary.model import BinaryModel
from partwise.plotting.figures import BLUE, GREY, ORANGE, FigureBase, finish_axes, panel_grid
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf._data import Split, bits, random_split
from partwise.reproduce.nbmf._methods import RunLengths, beta_dir_vb, bica, collapsed_bica, run_lengths

_COMPONENTS = 5
_MAKERS: dict[str, tuple[Callable[..., BinaryNMF], str, str]] = {
    "Beta-Dir VB": (beta_dir_vb, ORANGE, "-"),
    f"c-bICA-{_COMPONENTS}": (partial(collapsed_bica, _COMPONENTS), BLUE, "--"),
    f"bICA-{_COMPONENTS}": (partial(bica, _COMPONENTS), GREY, "-."),
}


def make(notebook: Notebook) -> None:
    """Run everything, and draw."""
    lengths = run_lengths(notebook.quick)
    found: dict[str, Any] = {dataset: {method: [] for method in _MAKERS} for dataset in lengths.datasets}
    for dataset, method, number in product(lengths.datasets, _MAKERS, range(lengths.n_splits)):
        step = f"fig11, {dataset}, {method}, split {number}"
        found[dataset][method].append(notebook.step(step, _run, method, dataset, number, lengths))
    notebook.figure("figure11_convergence", picture(found))


def picture(found: Mapping[str, Any]) -> FigureBase:
    """A panel for each data set, averages over the splits."""
    figure, axes = panel_grid(None, len(found), 2.6, 2.2, widest=3)
    for ax, (dataset, runs_by_method) in zip(axes, found.items(), strict=True):
        for method, runs in runs_by_method.items():
            _, colour, style = _MAKERS[method]
            mean = np.mean([run["perplexity"] for run in runs], axis=0)
            ax.semilogx(runs[0]["iteration"], mean, color=colour, linestyle=style, label=method)
        look: dict[str, Any] = {"title": dataset, "title_place": "center", "label_size": 8, "tick_size": 7}
        finish_axes(ax, "iteration", "perplexity (nats per cell)", legend_size=7 if ax is axes[0] else None, **look)
    return figure


def _run(method: str, dataset: str, number: int, lengths: RunLengths) -> dict[str, list[float]]:
    split = random_split(bits(dataset), number)
    estimator = _MAKERS[method][0](lengths, number, tol=0.0)
    wanted = {round(point) for point in np.geomspace(1, lengths.max_iter, 25).tolist()}
    watched = _Watch(split, BinaryModel("beta-dir", estimator.n_components), wanted)
    estimator.callbacks = [watched]
    estimator.fit(split.train)
    return {"iteration": watched.iterations, "perplexity": watched.perplexities}


class _Watch:
    """A callback that scores some iterations."""

    def __init__(self, split: Split, model: BinaryModel, wanted: set[int]) -> None:
        self._split, self._model, self._wanted = split, model, wanted
        self.iterations: list[float] = []
        self.perplexities: list[float] = []

    def __call__(self, iteration: int, state: Any, trace: Any) -> None:
        if iteration not in self._wanted:
            return
        collapsed = hasattr(state, "shares")
        row_counts = np.moveaxis(state.row_counts, 1, 2) if collapsed else state.row_counts
        posterior = posterior_of_counts(self._model.with_priors(state.priors), row_counts, state.column_counts)
        self.iterations.append(iteration)
        self.perplexities.append(self._split.perplexity(posterior.probability))
