"""Figure 4: column norms on NIPS articles against time, and the marginal likelihood, which the paper does not have.

Column norms and marginal log-likelihood on the way of a fit, against CPU seconds.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise import GammaPoissonNMF
from partwise.core.keys import Key
from partwise.errors import InvalidInputError
from partwise.gamma_poisson import GammaPoissonModel
from partwise.likelihood import smc
from partwise.plotting.figures import Figure, new_figure
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.gap._paper import ALGORITHMS, Dictionaries, compile_kernels

N_SCORED, N_COMPONENTS = 200, 10
# Iterations after which the likelihood is looked at; published runs are kept from one to the next.
MARKS = (1, 5, 20, 80, 160, 400, 1000)
_PARTS = (1, 3, 7, 20, 50, *range(100, 1001, 100))

Curve = dict[str, Any]


def published(notebook: Notebook, X: Any, name: str, seed: int, n_iterations: int, n_draws: int) -> Curve:
    """A run of Monte Carlo EM as published, half of the draws burn-in, in parts: what is cut off goes on from the last.

    Parameters
    ----------
    notebook
        Where the parts are kept, and the state after the last.
    X
        Counts.
    name, seed
        Algorithm and seed.
    n_iterations, n_draws
        Iterations, and Gibbs sweeps in each.
    """
    settings: dict[str, Any] = {"draws_per_iter": n_draws // 2, "burn_in_per_iter": n_draws // 2, "resume": True}
    settings["checkpoint"] = notebook.folder / f"{name}_{seed}.checkpoint"
    parts, begin = [], 0
    for end in (*(end for end in _PARTS if end < n_iterations), n_iterations):
        step = f"figure 4: {name} {seed} to iteration {end}"
        parts.append(notebook.step(step, curve, X, name, seed, begin=begin, max_iter=end, **settings))
        begin = end
    return {key: [value for part in parts for value in part[key]] for key in parts[0]}


def curve(X: Any, name: str, seed: int, *, begin: int = 0, **settings: Any) -> Curve:
    """Fit, and look at the likelihood of the same documents in all fits.

    Parameters
    ----------
    X
        Counts.
    name, seed
        Algorithm and seed.
    begin
        Iterations that are known already, and left out.
    settings
        Of the estimator.

    Returns
    -------
    dict
        Seconds and column norms of each iteration; iterations that were scored, the scores and their standard errors.
    """
    compile_kernels(name)
    seen = Dictionaries(MARKS)
    chosen: dict[str, Any] = {"inference": name, "random_state": seed, **settings}
    model = GammaPoissonNMF(N_COMPONENTS, **chosen, callbacks=[seen], progress=False).fit(X)
    seen.kept[model.n_iter_] = model.components_.T
    # Of a part of a run, only its end.
    marks = [model.n_iter_] if "checkpoint" in settings else sorted(seen.kept)
    scores = [score(X, seen.kept[mark]) for mark in marks]
    # What ran before a fit was cut off was not seen; the trace has its seconds by the clock.
    clock = np.diff(model.trace_["elapsed"], prepend=0.0)
    spent = dict(zip(seen.seconds, np.diff([*seen.seconds.values()], prepend=0.0), strict=True))
    return {
        "seconds": [spent.get(i + 1, clock[i]) for i in range(begin, model.n_iter_)],
        "norms": model.column_norms_[begin:],
        "marks": marks,
        "scores": [value for value, _ in scores],
        "errors": [error for _, error in scores],
    }


def score(X: Any, dictionary: NDArray[np.floating[Any]]) -> tuple[float, float]:
    """Log-likelihood of 200 documents, always the same, by sequential Monte Carlo, with its standard error."""
    rows = np.sort(np.random.default_rng(1).choice(X.shape[0], min(N_SCORED, X.shape[0]), replace=False))
    # Entries that an algorithm has emptied may be needed by documents whose words it has not seen in them.
    found = smc(X[rows], np.maximum(dictionary, 1e-30), 1.0, 1.0, rng=0, n_draws=64, n_islands=4)
    return found.total, found.total_std_error


# Iterations of each seed. The paper runs 1,000 of MCEM-C and of MCEM-CH, and does not report MCEM-H.
PUBLISHED = {"mcem-c": (1000, 100, 100), "mcem-ch": (1000,), "mcem-h": (3,)}
OURS: dict[str, tuple[dict[str, Any], int]] = {
    "saem": ({"max_iter": 200}, 3),
    "online": ({"max_iter": 200}, 3),
    "vem": ({"max_iter": 200, "tol": 0.0}, 3),
    "thorough": ({}, 5),
}
COLORS = ALGORITHMS | dict(zip(OURS, ("#CC79A7", "#E69F00", "#999999", "#000000"), strict=True))


def make(notebook: Notebook) -> None:
    """Compute and draw, and report."""
    try:
        X = _counts(notebook.quick)
    except (InvalidInputError, OSError) as error:
        notebook.section("Figure 4", f"Left out: {error}")
        return
    results = curves(notebook, X)
    notebook.figure("figure4", column_norms(results))
    notebook.figure("likelihood_against_time", likelihoods(results))
    rows = [
        [
            name,
            len(found),
            _range([len(c["norms"]) for c in found]),
            _range([sum(c["seconds"]) for c in found]),
            _range([c["scores"][-1] for c in found]),
            f"{max(c['errors'][-1] for c in found):.1f}",
            _range([_n_held(c) for c in found]),
        ]
        for name, found in results.items()
    ]
    head = ["algorithm", "seeds", "iterations", "CPU seconds", "at the end", "standard error", "columns not empty"]
    before = f"Log-likelihood of {min(N_SCORED, X.shape[0])} of {X.shape[0]} training documents:"
    notebook.table("Figure 4", head, rows, before=before)


def curves(notebook: Notebook, X: Any) -> dict[str, list[Curve]]:
    """All runs, those of an algorithm with different seeds."""
    results: dict[str, list[Curve]] = {}
    for name, iterations in PUBLISHED.items():
        sizes = [(10, 50)] if notebook.quick else [(n_iterations, 250) for n_iterations in iterations]
        results[name] = [published(notebook, X, name, seed, *size) for seed, size in enumerate(sizes)]
    for name, (settings, n_seeds) in OURS.items():
        seeds = range(1 if notebook.quick else n_seeds)
        results[name] = [notebook.step(f"figure 4: {name} {seed}", curve, X, name, seed, **settings) for seed in seeds]
    return results


def _counts(quick: bool) -> Any:
    if quick:
        parts = 150 * np.random.default_rng(0).dirichlet(np.full(100, 0.1), size=6).T / 6
        return GammaPoissonModel(parts).simulate(Key(0).for_stage("data"), 200)
    from partwise.datasets import load_counts

    return load_counts("nips_uci7605").matrix


def _range(values: list[float]) -> str:
    low, high = f"{min(values):,.0f}", f"{max(values):,.0f}"
    return low if low == high else f"{low} to {high}"


def _n_held(found: Curve) -> int:
    """Columns with at least a hundredth of all expected counts."""
    norms = np.array(found["norms"][-1])
    return int(np.sum(norms > 0.01 * norms.sum()))


def _written(name: str) -> str:
    return name.upper() if name.startswith("mcem") else name


def column_norms(results: dict[str, list[Curve]]) -> Figure:
    """Norms of the columns of the dictionary against CPU seconds, one panel per algorithm."""
    figure = new_figure(8.0, 3.2)
    axes = figure.subplots(1, 3, sharey=True)
    for ax, name in zip(axes, ("mcem-c", "mcem-ch", "thorough"), strict=True):
        found = results[name][0]
        ax.plot(np.cumsum(found["seconds"]), found["norms"], linewidth=0.9, drawstyle="steps-post")
        ax.set_title(_written(name), fontsize=9)
        ax.set_xlabel("CPU seconds")
    axes[0].set_ylabel("norms of the columns")
    return figure


def likelihoods(results: dict[str, list[Curve]]) -> Figure:
    """Marginal log-likelihood and standard errors against CPU seconds, one curve per seed; the top at the right."""
    figure = new_figure(9.0, 4.0)
    axes = figure.subplots(1, 2)
    ends = [run["scores"][-1] for runs in results.values() for run in runs]
    views = {"all algorithms": min(ends), "enlarged, MCEM is below": float(np.quantile(ends, 0.25))}
    for ax, (title, lowest) in zip(axes, views.items(), strict=True):
        for name, runs in results.items():
            for number, run in enumerate(runs):
                seconds = np.cumsum(run["seconds"])[np.array(run["marks"]) - 1]
                look = {"color": COLORS[name], "linewidth": 1.1, "marker": "."}
                ax.errorbar(seconds, run["scores"], run["errors"], label="" if number else _written(name), **look)
        span = max(ends) - lowest + 1.0
        ax.set(ylim=(lowest - 0.3 * span, max(ends) + 0.1 * span), xscale="log", xlabel="CPU seconds")
        ax.yaxis.set_major_formatter("{x:,.0f}")
        ax.set_title(title, fontsize=9)
    axes[0].set_ylabel(f"marginal log-likelihood of {N_SCORED} documents, nats")
    axes[0].legend(fontsize=8)
    return figure
