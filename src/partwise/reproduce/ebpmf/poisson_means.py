"""Poisson means: error of posterior means by family of priors, beside maximum likelihood and the true prior."""

from typing import Any

import numpy as np

from partwise.empirical_bayes.means import ebpm
from partwise.plotting.figures import BLUE, GREY, ORANGE, Figure, finish_axes, new_figure
from partwise.priors.mixture import GammaMixture
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.ebpmf.recovery import SPARSE, mixture

FAMILIES = ("gamma", "point-gamma", "two-gamma", "exponential-mixture", "gamma-mixture", "nonparametric")
TRUTHS = {
    "gamma, shape 0.5": GammaMixture.gamma(0.5, 0.1),
    "sparse": SPARSE,
    "half exact zeros": mixture([0.5, 0.5], [np.inf, 3.0], [0.0, 5.0]),
    "two bumps": mixture([0.6, 0.4], [20.0, 20.0], [2.0, 15.0]),
    "three points": mixture([0.5, 0.3, 0.2], [np.inf] * 3, [0.5, 4.0, 12.0]),
    "nearly one rate": mixture([1.0], [1000.0], [5.0]),
}


def make(notebook: Notebook) -> None:
    """Table and figure."""
    n_sets, size = (2, 300) if notebook.quick else (20, 1000)
    results = {name: notebook.step(f"means: {name}", errors, prior, n_sets, size) for name, prior in TRUTHS.items()}
    notebook.figure("poisson_means", picture(results))
    rows = [[name, *(f"{np.mean(values):.3f}" for values in found.values())] for name, found in results.items()]
    notebook.table("Poisson means", ["rates", *next(iter(results.values()))], rows)


def errors(prior: GammaMixture, n_sets: int, size: int) -> dict[str, list[float]]:
    """Mean squared error of each method over that of maximum likelihood, set by set; exposures vary."""
    found: dict[str, list[float]] = {name: [] for name in ("true prior", *FAMILIES)}
    for seed in range(n_sets):
        generator = np.random.default_rng(seed)
        exposure = generator.gamma(5.0, 0.2, size=size)
        rates = prior.draw(size, generator)
        counts = generator.poisson(exposure * rates).astype(np.float64)
        unit = float(np.mean((counts / exposure - rates) ** 2))
        for name in found:
            estimate = prior.posterior(counts, exposure) if name == "true prior" else ebpm(counts, exposure, name)
            found[name].append(float(np.mean((estimate.mean - rates) ** 2)) / unit)
    return found


def picture(results: dict[str, Any]) -> Figure:
    """One panel for each kind of rates: the error of each family, beside that under the true prior."""
    figure = new_figure(8.4, 4.6)
    axes = figure.subplots(2, 3, sharey=True).flat
    for ax, (name, found) in zip(axes, results.items(), strict=True):
        heights = np.arange(len(FAMILIES))[::-1]
        means = np.array([np.mean(found[family]) for family in FAMILIES])
        spread = [np.std(found[family]) / np.sqrt(len(found[family])) for family in FAMILIES]
        ax.errorbar(means, heights, xerr=spread, fmt="o", color=BLUE, markersize=5)
        ax.axvline(float(np.mean(found["true prior"])), color=ORANGE, linewidth=1.2)
        ax.axvline(1.0, color=GREY, linewidth=0.8, linestyle=":")
        ax.set_xlim(-0.04, max(1.05, 1.1 * float(means.max())))
        ax.set_yticks(heights, FAMILIES, fontsize=8)
        finish_axes(ax, title=name, title_place="center", tick_size=8)
    units = "as a share of that of maximum likelihood (dotted); orange: with the true prior"
    figure.supxlabel(f"mean squared error, {units}", fontsize=9)
    return figure
