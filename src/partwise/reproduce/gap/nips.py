"""Figure 4: column norms on NIPS articles against time, and the marginal likelihood, which the paper does not have."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise import GammaPoissonNMF
from partwise.core.keys import Key
from partwise.errors import InvalidInputError
from partwise.gamma_poisson import GammaPoissonModel
from partwise.likelihood import smc
from partwise.plotting._figures import new_figure
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.gap._paper import Dictionaries

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The paper runs 1,000 iterations of 250 draws of MCEM-C and of MCEM-CH. These fit into four hours of one core.
_PUBLISHED = {"mcem-c": 400, "mcem-ch": 400, "mcem-h": 100}
_OURS: dict[str, dict[str, Any]] = {
    "saem": {"max_iter": 300},
    "online": {"max_iter": 300},
    "vem": {"max_iter": 300, "tol": 0.0},
    "auto": {},
}
_COLORS = {
    "mcem-c": "#D55E00",
    "mcem-ch": "#0072B2",
    "mcem-h": "#009E73",
    "saem": "#CC79A7",
    "online": "#E69F00",
    "vem": "#999999",
    "auto": "#000000",
}
_N_SCORED, _N_COMPONENTS = 200, 10


def make(notebook: Notebook) -> str:
    """Compute and draw; a section for the report."""
    try:
        X = _counts(notebook.quick)
    except (InvalidInputError, OSError) as error:
        return f"## Figure 4\n\nLeft out: {error}\n"
    seeds = 1 if notebook.quick else 3
    results: dict[str, list[Any]] = {}
    for name, n_iterations in _PUBLISHED.items():
        settings = {"draws_per_iter": 125, "burn_in_per_iter": 125, "max_iter": 10 if notebook.quick else n_iterations}
        n_runs = seeds if name == "mcem-c" else 1
        results[name] = _runs(notebook, X, name, n_runs, settings)
    for name, settings in _OURS.items():
        short = {"max_iter": 100} if notebook.quick else {}
        results[name] = _runs(notebook, X, name, seeds, {**settings, **short})
    notebook.figure("figure_4", _norms(results))
    notebook.figure("likelihood_against_time", _likelihoods(results))
    rows = [
        f"| {name} | {len(fits)} | {max(f['seconds'][-1] for f in fits):.0f} |"
        f" {', '.join(format(f['scores'][-1], ',.0f') for f in fits)} |"
        for name, fits in results.items()
    ]
    return (
        f"## Figure 4\n\nLog-likelihood of {min(_N_SCORED, X.shape[0])} of {X.shape[0]} training documents:\n\n"
        "| algorithm | runs | CPU seconds | at the end |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )


def _counts(quick: bool) -> Any:
    if quick:
        parts = 150 * np.random.default_rng(0).dirichlet(np.full(500, 0.1), size=6).T / 6
        return GammaPoissonModel(parts).simulate(Key(0).for_stage("data"), 300)
    from partwise.datasets import load_counts

    return load_counts("nips_uci7605").matrix


def _runs(notebook: Notebook, X: Any, name: str, n_runs: int, settings: dict[str, Any]) -> list[Any]:
    return [notebook.step(f"figure 4: {name} {s}", partial(_fit, X, name, s, settings)) for s in range(n_runs)]


def _fit(X: Any, name: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    seen = _Models()
    GammaPoissonNMF(_N_COMPONENTS, inference=name, random_state=seed, callbacks=[seen], progress=False, **settings).fit(
        X
    )
    n_iterations = len(seen.seconds)
    chosen = np.unique(np.geomspace(1, n_iterations, 12).astype(int)) - 1
    rows = np.sort(np.random.default_rng(1).choice(X.shape[0], min(_N_SCORED, X.shape[0]), replace=False))
    scored = [smc(X[rows], seen.kept[i], 1.0, 1.0, rng=0, n_draws=64, n_islands=4) for i in chosen]
    return {
        "seconds": seen.seconds,
        "norms": [dictionary.sum(axis=0) for dictionary in seen.kept],
        "chosen": chosen,
        "scores": [found.total for found in scored],
        "errors": [found.total_std_error for found in scored],
    }


class _Models(Dictionaries):
    """Of on-line EM too, whose state is a statistic; shapes and rates are 1. Four bytes a number, none of them 0."""

    def __call__(self, iteration: int, state: Any, trace: Any) -> None:
        dictionary = getattr(state, "dictionary", None)
        found = state.statistic if dictionary is None else dictionary
        self.kept.append(np.maximum(found, 1e-30).astype(np.float32))
        self.seconds.append(self._clock() - self._began)


def _norms(results: dict[str, list[Any]]) -> Figure:
    figure = new_figure(8.0, 3.2)
    axes = figure.subplots(1, 3, sharey=True)
    for ax, name in zip(axes, ("mcem-c", "mcem-ch", "auto"), strict=True):
        fit = results[name][0]
        ax.plot(fit["seconds"], fit["norms"], linewidth=0.9)
        ax.set_title(name.upper() if name.startswith("mcem") else name, fontsize=9)
        ax.set_xlabel("CPU seconds")
    axes[0].set_ylabel("norms of the columns")
    return figure


def _likelihoods(results: dict[str, list[Any]]) -> Figure:
    figure = new_figure(6.0, 4.0)
    ax = figure.add_subplot()
    for name, fits in results.items():
        for number, fit in enumerate(fits):
            seconds = np.array(fit["seconds"])[np.array(fit["chosen"])]
            label = name if number == 0 else None
            ax.errorbar(seconds, fit["scores"], fit["errors"], color=_COLORS[name], linewidth=1.1, label=label)
    ends = [fit["scores"][-1] for fits in results.values() for fit in fits]
    span = max(ends) - min(ends) + 1.0
    ax.set_ylim(min(ends) - span, max(ends) + 0.2 * span)
    ax.set_xscale("log")
    ax.set_xlabel("CPU seconds")
    ax.set_ylabel("marginal log-likelihood of 200 documents")
    ax.legend(fontsize=8)
    return figure
