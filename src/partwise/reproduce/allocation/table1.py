"""Table 1: random 8 x 10 matrices, KL-NMF beside its refinement by the best latent decomposition."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import digamma

from partwise.allocation.inference.annealed import AnnealedGibbs
from partwise.allocation.inference.decomposition import BestDecomposition, DecompositionState
from partwise.allocation.model import AllocationModel
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.engines.local import LocalEngine
from partwise.kernels.arrays import Floats
from partwise.metrics import hoyer_sparseness
from partwise.plotting.figures import finish_axes, new_figure
from partwise.reproduce._notebook import Notebook, table

_MODEL = AllocationModel(8, 2, 1.0, 1.0, 40.0, 1.0)
_ITERATIONS = (0, 10, 30, 100, 300, 1000)
_CHUNK = 100
_N_SMALL = 40


def sparseness(activations: Floats, dictionary: Floats) -> float:
    """Hoyer's, averaged over both factors."""
    return 0.5 * float(hoyer_sparseness(activations).mean() + hoyer_sparseness(dictionary, axis=0).mean())


def matrix(seed: int) -> CountMatrix:
    """A matrix drawn from the model: 10 samples of 8 features, about 40 counts each."""
    return CountMatrix.build(_MODEL.simulate(Key(seed), 10).counts)


def _decompositions(seed: int) -> Iterator[DecompositionState]:
    """Best latent decompositions of one matrix: that of KL-NMF first, then the one after each iteration."""
    data = matrix(seed)
    algorithm = BestDecomposition(_MODEL, start="random", start_iterations=200, engine=LocalEngine())
    state = algorithm.init(Key(seed), data)
    yield state
    for iteration in range(1, _ITERATIONS[-1] + 1):
        state, _ = algorithm.step(Key(seed).at(iteration), data, state)
        yield state


def trajectory(seed: int) -> dict[str, list[float]]:
    """Log p(S) and sparseness at some iterations, and the smallest change of log p(S) in any of them."""
    reached: dict[str, list[float]] = {"log_p": [], "sparseness": [], "raw": []}
    objectives = []
    for iteration, state in enumerate(_decompositions(seed)):
        objectives.append(state.objective)
        if iteration in _ITERATIONS:
            reached["log_p"].append(state.objective)
            counts = state.sample_counts, state.feature_counts
            reached["sparseness"].append(sparseness(*_MODEL.expected_factors(*counts)))
            # That of the shares of counts, without the priors' pull towards even ones.
            reached["raw"].append(sparseness(*counts))
    return {**reached, "least_change": [min(0.0, float(np.diff(objectives).min()))]}


def bounds(seed: int) -> list[float]:
    """Log p(S) of the best decomposition, of the unrestricted relaxation from it, and of annealed whole numbers."""
    *_, state = _decompositions(seed)
    data = matrix(seed)
    share = state.activations[:, None, :] * state.dictionary[None]
    share /= share.sum(axis=2, keepdims=True)
    relaxed = unrestricted(_MODEL, data.to_scipy().toarray()[..., None] * share)
    annealed = AnnealedGibbs(_MODEL, n_sweeps=200, n_chains=4, engine=LocalEngine())
    whole = annealed.init(Key(seed), data)
    for iteration in range(1, 201):
        whole, _ = annealed.step(Key(seed).at(iteration), data, whole)
    return [state.objective, relaxed, float(whole.log_allocation.max())]


def unrestricted(model: AllocationModel, allocations: Floats, *, n_iterations: int = 500) -> float:
    """Log p(S) of a local maximum over nonnegative S with the same sums over k, from a given S of small dense data.

    Every S_nfk is free, not only those of the form of Eq. 14.

    Exponentiated gradient steps, S ← S exp(η ∂l/∂S) with each cell's sum restored, η halved until l does not fall.
    """
    counts = allocations.sum(axis=2, keepdims=True)
    reached, step = model.log_allocation(allocations), 0.5
    for _ in range(n_iterations):
        by_feature, by_sample = allocations.sum(axis=0), allocations.sum(axis=1)
        gradient = digamma(model.dictionary_posterior(by_feature))[None] - digamma(allocations + 1.0)
        gradient = gradient + digamma(model.activation_posterior(by_sample))[:, None]
        gradient = gradient - digamma(model.dictionary_concentration.sum() + by_feature.sum(axis=0))
        while step > 1e-6:
            moved = np.maximum(allocations, 1e-12) * np.exp(step * (gradient - gradient.max(axis=2, keepdims=True)))
            moved *= counts / moved.sum(axis=2, keepdims=True)
            value = model.log_allocation(moved)
            if value >= reached:
                break
            step *= 0.5
        else:
            break
        allocations, reached, step = moved, value, min(1.0, 1.5 * step)
    return float(reached)


def _of_each(compute: Callable[[int], Any], seeds: range) -> list[Any]:
    return [compute(seed) for seed in seeds]


def make(notebook: Notebook) -> None:
    """The table in Markdown, and the gain against iterations."""
    n_matrices = 40 if notebook.quick else 1000
    runs: list[dict[str, Any]] = []
    for first in range(0, n_matrices, _CHUNK):
        seeds = range(first, min(n_matrices, first + _CHUNK))
        runs += notebook.step(f"table 1, matrices {seeds.start} to {seeds.stop - 1}", _of_each, trajectory, seeds)
    log_p, sparse, raw = (np.array([run[key] for run in runs]) for key in ("log_p", "sparseness", "raw"))
    small = np.array(notebook.step("table 1, relaxations", _of_each, bounds, range(min(_N_SMALL, n_matrices))))
    notebook.figure("table1_gain", _picture(log_p, sparse))
    notebook.section("Table 1", _table(log_p, sparse, raw, small, min(run["least_change"][0] for run in runs)))


def _table(log_p: Floats, sparse: Floats, raw: Floats, small: Floats, least: float) -> str:
    n_matrices = log_p.shape[0]
    error = log_p[:, 0].std(ddof=1) / np.sqrt(n_matrices)
    rows = [["paper, KL-NMF", "0.45", "", "-239.2", ""], ["paper, BLD", "0.50", "", "-229.5", "9.7"]]
    for at, iteration in enumerate(_ITERATIONS):
        name = "KL-NMF" if iteration == 0 else f"BLD, {iteration} iterations"
        gain = (log_p[:, at] - log_p[:, 0]).mean()
        means = (f"{sparse[:, at].mean():.3f}", f"{raw[:, at].mean():.3f}", f"{log_p[:, at].mean():.1f}")
        rows.append([name, *means, f"{gain:.2f}"])
    worst = float((log_p[:, -1] - log_p[:, 0]).min())
    lines = [
        table(["", "sparseness", "of counts alone", "log p(S)", "gain"], rows),
        "",
        f"{n_matrices} matrices; standard error of log p(S) {error:.2f}. Smallest gain of a matrix {worst:.3f},"
        f" smallest change of log p(S) in an iteration {least:.2g}.",
        "",
        f"First {small.shape[0]} matrices, log p(S): BLD {small[:, 0].mean():.2f}, unrestricted relaxation from there"
        f" {small[:, 1].mean():.2f}, annealed whole numbers {small[:, 2].mean():.2f}.",
    ]
    return "\n".join(lines) + "\n"


def _picture(log_p: Floats, sparse: Floats) -> Any:
    figure = new_figure(7.0, 2.8)
    left, right = figure.subplots(1, 2)
    iterations = np.array(_ITERATIONS)
    for ax, values, label, goal in (
        (left, log_p - log_p[:, :1], "gain of log p(S), nats", 9.7),
        (right, sparse - sparse[:, :1], "gain of sparseness", 0.05),
    ):
        low, high = np.quantile(values, [0.1, 0.9], axis=0)
        ax.fill_between(iterations, low, high, alpha=0.25, label="middle 80% of matrices")
        ax.plot(iterations, values.mean(axis=0), marker="o", markersize=3, label="mean")
        ax.axhline(goal, color="black", linewidth=0.8, linestyle="--", label="paper")
        ax.set_xscale("symlog", linthresh=10)
        ax.set_xlim(left=0)
        finish_axes(ax, "iterations", label)
    left.legend(frameon=False, fontsize=8)
    return figure
