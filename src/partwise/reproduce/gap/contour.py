"""Figure 1: one feature, two components; the likelihood's contours and the iterates of three algorithms."""

from typing import Any

import numpy as np
from scipy.interpolate import RectBivariateSpline

from partwise.core.keys import Key
from partwise.gamma_poisson import GammaPoissonModel
from partwise.likelihood import exact
from partwise.plotting.figures import Figure, new_figure
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.gap._paper import ALGORITHMS, followed

_TRUTH, _N_SAMPLES, _N_LAST = np.array([[1.0, 3.0]]), 300, 80


def make(notebook: Notebook) -> None:
    """Compute and draw, and report."""
    X = GammaPoissonModel(_TRUTH).simulate(Key(1).for_stage("data"), _N_SAMPLES).toarray()
    mean = float(X.mean())
    n_points, n_iterations, n_draws = (25, 90, 40) if notebook.quick else (60, 500, 300)
    surface = notebook.step("figure 1: contours", _surface, X, mean, n_points)
    sizes = n_iterations, n_draws
    iterates = {name: notebook.step(f"figure 1: {name}", _iterates, X, name, *sizes) for name in ALGORITHMS}
    notebook.figure("figure1", _picture(surface, iterates, mean))
    errors = {name: float(np.abs(np.sum(path, axis=1) - mean).max()) for name, path in iterates.items()}
    notebook.section(
        "Figure 1",
        f"Mean of the data {mean:.4f}. Largest distance of w_1 + w_2 from it over the last"
        f" {_N_LAST} iterations: " + ", ".join(f"{name} {error:.1e}" for name, error in errors.items()) + ".",
    )


def _surface(X: Any, mean: float, n_points: int) -> dict[str, Any]:
    axis = np.linspace(0.02, 1.15 * mean, n_points)
    values, times = np.unique(X, return_counts=True)
    cost = [[-float(times @ exact(values[:, None], [[a, b]], 1.0, 1.0).values) for a in axis] for b in axis]
    return {"axis": axis, "cost": cost}


def _iterates(X: Any, name: str, n_iterations: int, n_draws: int) -> Any:
    return np.array([*followed(X, 2, name, n_iterations, n_draws).kept.values()])[-_N_LAST:, 0, :]


def _picture(surface: dict[str, Any], iterates: dict[str, Any], mean: float) -> Figure:
    """As in the paper and, at the right, what the iterates do."""
    figure = new_figure(8.4, 4.5)
    whole, near = figure.subplots(1, 2)
    axis, cost = np.array(surface["axis"]), np.array(surface["cost"])
    levels = cost.min() + np.geomspace(0.05, np.ptp(cost), 25)
    # Splines between the points of the grid, which is too coarse for the right panel.
    fine = np.linspace(axis[0], axis[-1], 16 * axis.size)
    smooth = RectBivariateSpline(axis, axis, cost)(fine, fine)
    for ax in (whole, near):
        ax.contour(fine, fine, smooth, levels=levels, colors="0.75", linewidths=0.7)
        ax.plot([0, mean], [mean, 0], color="0.4", linewidth=0.8, linestyle="--", label="$w_1 + w_2$ = mean")
        for name in reversed(ALGORITHMS):
            path = np.array(iterates[name])
            ax.plot(path[:, 0], path[:, 1], color=ALGORITHMS[name], linewidth=0.9, label=name.upper())
        ax.set_xlabel("$w_1$")
        ax.set_aspect("equal")
    points = np.concatenate([np.array(path) for path in iterates.values()])
    middle, reach = (points.min(axis=0) + points.max(axis=0)) / 2, 0.6 * np.ptp(points, axis=0).max()
    near.set(xlim=(middle[0] - reach, middle[0] + reach), ylim=(middle[1] - reach, middle[1] + reach))
    whole.set_title("contours of $C_{ML}$, and the last iterates", fontsize=9)
    near.set_title("the same, enlarged", fontsize=9)
    whole.set_ylabel("$w_2$")
    whole.legend(fontsize=8)
    return figure
