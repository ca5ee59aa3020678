"""Recovery of sparse factors, by depth of the counts, beside maximum likelihood.

Sparse factors and the counts that they give.
"""

from typing import Any

import numpy as np

from partwise.core.keys import Key
from partwise.empirical_bayes.estimator import EmpiricalBayesPoissonNMF
from partwise.empirical_bayes.model import EmpiricalBayesModel
from partwise.kernels.arrays import Floats, Integers
from partwise.metrics.matching import match_parts, unit_parts
from partwise.plotting.figures import BLUE, ORANGE, Figure, finish_axes, new_figure
from partwise.poisson.estimator import PoissonNMF
from partwise.poisson.model import PoissonModel
from partwise.priors.mixture import GammaMixture
from partwise.reproduce._notebook import Notebook


def mixture(weights: list[float], shapes: list[float], means: list[float]) -> GammaMixture:
    """A prior from plain numbers."""
    return GammaMixture(np.array(weights), np.array(shapes), np.array(means))


# Seven entries of ten are next to nothing, the others of one size.
SPARSE = mixture([0.7, 0.3], [1.0, 2.0], [0.01, 2.0])


def sparse_factors(
    seed: int, n_samples: int, n_features: int, n_components: int, depth: float
) -> tuple[Integers, PoissonModel]:
    """Counts whose samples have about ``depth`` counts each, and the factors behind them."""
    share = depth / (n_features * n_components * SPARSE.mean**2)
    priors = (SPARSE,) * n_components
    model = EmpiricalBayesModel(tuple(prior.scaled(share) for prior in priors), priors)
    counts, factors = model.simulate(Key(seed), n_samples, n_features)
    dense: Integers = counts.toarray()
    return dense, factors


N_COMPONENTS = 5
METHODS = ("PoissonNMF", "gamma", "exponential-mixture", "two-gamma")
STYLES = {
    "PoissonNMF": (ORANGE, "o"),
    "gamma": ("#56B4E9", "s"),
    "exponential-mixture": (BLUE, "D"),
    "two-gamma": ("#009E73", "^"),
}
MEASURES = {
    "dictionary": "affinity with the true parts",
    "activations": "affinity with the true activations",
    "rates": "relative error of the rates",
}


def make(notebook: Notebook) -> None:
    """Table and figure."""
    depths, n_sets = ((30, 100), 1) if notebook.quick else ((10, 20, 40, 80, 160, 320), 5)
    steps = {depth: f"recovery: {depth} counts per sample" for depth in depths}
    results = {str(depth): notebook.step(step, recovered, depth, n_sets) for depth, step in steps.items()}
    notebook.figure("recovery", picture(results))
    rows = [
        [depth, name, *(f"{np.mean(found[name][measure]):.3f}" for measure in MEASURES)]
        for depth, found in results.items()
        for name in METHODS
    ]
    notebook.table("Recovery of sparse factors", ["counts per sample", "method", *MEASURES.values()], rows)


def recovered(depth: float, n_sets: int) -> dict[str, dict[str, list[float]]]:
    """Affinities of matched parts, and of their activations, and the relative error of all rates, for each method."""
    found: dict[str, dict[str, list[float]]] = {name: {measure: [] for measure in MEASURES} for name in METHODS}
    for seed in range(n_sets):
        counts, truth = sparse_factors(seed, 200, 150, N_COMPONENTS, depth)
        for name in METHODS:
            model = fit(name, counts, N_COMPONENTS)
            activations = model.transform(counts)
            order = match_parts(truth.dictionary.T, model.components_)[1]
            error = np.linalg.norm(activations @ model.components_ - truth.rates()) / np.linalg.norm(truth.rates())
            found[name]["dictionary"].append(affinity(model.components_[order], truth.dictionary.T))
            found[name]["activations"].append(affinity(activations.T[order], truth.activations.T))
            found[name]["rates"].append(float(error))
    return found


def fit(name: str, counts: Any, n_components: int, **parameters: Any) -> Any:
    """A fitted model: maximum likelihood, or empirical Bayes with a family for both factors."""
    common: dict[str, Any] = {"random_state": 0, "progress": False, "max_iter": 500, "tol": 1e-5, **parameters}
    if name == "PoissonNMF":
        return PoissonNMF(n_components, **common).fit(counts)
    # As many parts as are asked for, so that methods are compared at the same number.
    priors: dict[str, Any] = {"activation_prior": name, "dictionary_prior": name}
    return EmpiricalBayesPoissonNMF(n_components, **priors, prune=False, **common).fit(counts)


def affinity(rows: Floats, others: Floats) -> float:
    """Mean over the rows of Σ sqrt(p q), with p and q the rows divided by their sums: 1 where they are equal."""
    return float(np.mean(np.sum(unit_parts(np.sqrt(rows)) * unit_parts(np.sqrt(others)), axis=1)))


def picture(results: dict[str, Any]) -> Figure:
    """One panel for each measure, against the depth."""
    figure = new_figure(9.0, 3.0)
    depths = [float(depth) for depth in results]
    for ax, (measure, label) in zip(figure.subplots(1, len(MEASURES)), MEASURES.items(), strict=True):
        for name in METHODS:
            color, marker = STYLES[name]
            values = [np.mean(found[name][measure]) for found in results.values()]
            ax.plot(depths, values, marker=marker, color=color, markersize=4, linewidth=1.2, label=name)
        ax.set_xscale("log")
        ax.set_xticks(depths, [f"{depth:g}" for depth in depths])
        ax.minorticks_off()
        finish_axes(ax, "counts per sample", title=label, title_place="center", label_size=9, tick_size=8)
    ax.legend(fontsize=7, frameon=False)
    return figure
