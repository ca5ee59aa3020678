"""Prediction of thinned counts by number of parts, beside maximum likelihood, stopped early and not."""

import os
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from partwise.kernels.arrays import Floats
from partwise.passes.side import cell_rates
from partwise.plotting.figures import BLUE, ORANGE, Figure, finish_axes, new_figure
from partwise.reproduce._notebook import Notebook, table
from partwise.reproduce.ebpmf.recovery import fit, sparse_factors

KEPT = 0.8
# Share of the prediction that goes by the totals of samples and features alone: maximum likelihood has rates of 0 where
# there are held-out counts. Either the same for all, or of several the one that suits a method best, on the held-out
# counts themselves.
SAME = 1e-3
SEVERAL = (1e-4, 1e-3, 1e-2, 0.05, 0.2)
SMOOTHINGS = {"same": f"smoothing {SAME:g} for all", "best": "each with its best smoothing"}
Scores = dict[str, dict[str, float]]
EARLY, CONVERGED = "PoissonNMF, stopped at its best", "PoissonNMF"
BAYES = ("gamma", "exponential-mixture")
STYLES = {
    CONVERGED: (ORANGE, "o", "-"),
    EARLY: (ORANGE, "o", ":"),
    "gamma": ("#56B4E9", "s", "-"),
    "exponential-mixture": (BLUE, "D", "-"),
}


def make(notebook: Notebook) -> None:
    """Tables and figure."""
    quick = notebook.quick
    sizes: dict[str, tuple[int, ...]] = {"simulated": (2, 5, 12) if quick else (2, 3, 5, 8, 12, 20, 30)}
    if os.environ.get("PARTWISE_DATA"):
        sizes["ap"] = (10,) if quick else (5, 10, 20, 40)
    titles, computed = {"simulated": "simulated, 5 parts", "ap": "ap"}, {"simulated": simulated, "ap": ap}
    results = {
        titles[data]: {
            str(size): notebook.step(f"thinned: {data}, K = {size}", computed[data], size, quick) for size in tried
        }
        for data, tried in sizes.items()
    }
    notebook.figure("prediction", picture(results))
    parts = []
    for name, found in results.items():
        for smoothing, title in SMOOTHINGS.items():
            rows = [[method, *(f"{at[method][smoothing]:.4f}" for at in found.values())] for method in STYLES]
            parts += [f"### {name}, {title}", table(["method", *(f"K = {size}" for size in found)], rows)]
    if "ap" not in results:
        parts.append("ap: not computed, as PARTWISE_DATA is not set.")
    notebook.section("Thinned counts: log-likelihood per held-out count, in nats", "\n\n".join(parts))


def simulated(n_components: int, quick: bool) -> Scores:
    """Scores on counts of sparse factors, 5 parts."""
    counts, _ = sparse_factors(0, 100 if quick else 300, 80 if quick else 200, 5, 60.0)
    return scores(sp.csr_array(counts), n_components, 500)


def ap(n_components: int, quick: bool) -> Scores:
    """Scores on the Associated Press documents."""
    from partwise.datasets import load_counts

    return scores(sp.csr_array(load_counts("ap").matrix), n_components, 20 if quick else 100)


def scores(counts: Any, n_components: int, max_iter: int) -> Scores:
    """Log probability of a held-out count under each method."""
    generator = np.random.default_rng(1)
    kept, held = counts.copy(), counts.copy()
    kept.data = generator.binomial(counts.data, KEPT)
    held.data = counts.data - kept.data
    kept.eliminate_zeros()
    held.eliminate_zeros()
    judge = Judge(kept, held)
    found: Scores = {EARLY: dict.fromkeys(SMOOTHINGS, -np.inf)}

    def look(iteration: int, state: Any, trace: Any) -> None:
        if iteration <= 10 or iteration % 5 == 0:
            found[EARLY] = _better(found[EARLY], judge.scores(state.activations, state.dictionary))

    # All have the same number of iterations, enough or not.
    model = fit(CONVERGED, kept, n_components, max_iter=max_iter, callbacks=[look])
    found[CONVERGED] = judge.scores(model.transform(kept), model.components_.T)
    found[EARLY] = _better(found[EARLY], found[CONVERGED])
    for name in BAYES:
        # The posterior of the training samples themselves, as the last sweep left it.
        last: dict[str, Any] = {}
        keep = [lambda _iteration, state, _trace, last=last: last.update(state=state)]
        fit(name, kept, n_components, max_iter=max_iter, callbacks=keep)
        found[name] = judge.scores(last["state"].activations.mean, last["state"].dictionary.mean)
    return found


def _better(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    """The higher of two scores, for each smoothing."""
    return {name: max(value, other[name]) for name, value in one.items()}


class Judge:
    """Scores rates by counts that were held out.

    Parameters
    ----------
    kept, held
        Counts that models are fitted to, and the others.
    """

    def __init__(self, kept: Any, held: Any) -> None:
        self._rows, self._columns = held.nonzero()
        self._held = held.data.astype(np.float64)
        total = float(kept.sum())
        # Samples and features without any kept count are given half of one.
        samples, features = np.asarray(kept.sum(axis=1)) + 0.5, np.asarray(kept.sum(axis=0)) + 0.5
        self._plain = samples[self._rows] * features[self._columns] / features.sum()
        self._total = total + 0.5 * samples.size
        self._odds = (1.0 - KEPT) / KEPT

    def scores(self, activations: Floats, dictionary: Floats) -> dict[str, float]:
        """Mean log probability of a held-out count with either smoothing."""
        rates = cell_rates(activations, dictionary, self._rows, self._columns)
        expected = float(activations.sum(axis=0) @ dictionary.sum(axis=0))
        best = max(self._score(rates, expected, share) for share in SEVERAL)
        return {"same": self._score(rates, expected, SAME), "best": best}

    def _score(self, rates: Floats, expected: float, share: float) -> float:
        mixed = self._odds * ((1.0 - share) * rates + share * self._plain)
        total = self._odds * ((1.0 - share) * expected + share * self._total)
        logs = self._held * np.log(mixed) - gammaln(self._held + 1.0)
        return (float(logs.sum()) - total) / float(self._held.sum())


def picture(results: dict[str, Any]) -> Figure:
    """Scores against the number of parts: one column for each data set, one row for each smoothing."""
    figure = new_figure(4.4 * len(results), 5.8)
    axes = figure.subplots(len(SMOOTHINGS), len(results), squeeze=False)
    for row, (smoothing, label) in enumerate(SMOOTHINGS.items()):
        for column, (title, found) in enumerate(results.items()):
            ax, sizes = axes[row, column], [int(size) for size in found]
            for name, (color, marker, line) in STYLES.items():
                values = [at[name][smoothing] for at in found.values()]
                look = {"marker": marker, "linestyle": line, "color": color, "markersize": 4, "linewidth": 1.2}
                ax.plot(sizes, values, label=name, **look)
            ax.set_xscale("log")
            ax.set_xticks(sizes, [str(size) for size in sizes])
            ax.minorticks_off()
            finish_axes(ax, title=f"{title}, {label}", title_place="center", tick_size=8)
    axes[0, -1].legend(fontsize=7, frameon=False)
    figure.supxlabel("number of parts", fontsize=9)
    figure.supylabel("log-likelihood per held-out count (nats)", fontsize=9)
    return figure
