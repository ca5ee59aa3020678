"""Column norms and marginal log-likelihood on the way of a fit, against CPU seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise import GammaPoissonNMF
from partwise.likelihood import smc
from partwise.reproduce._notebook import Notebook
from partwise.reproduce.gap._paper import Dictionaries, compile_kernels

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
    settings = {
        "draws_per_iter": n_draws // 2,
        "burn_in_per_iter": n_draws // 2,
        "checkpoint": notebook.folder / f"{name}_{seed}.checkpoint",
        "resume": True,
    }
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
    model = GammaPoissonNMF(
        N_COMPONENTS, inference=name, random_state=seed, callbacks=[seen], progress=False, **settings
    ).fit(X)
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
