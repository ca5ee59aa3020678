"""Two figures of the docs about cells: ``python -m benchmarks.cells_checks samples`` and ``splitting``.

``samples``: how well a consensus finds true parts if each restart has a sample of the cells. ``splitting``: how large
fold changes are, and how often intervals hold the true ones, if activations come from one half of the counts and fold
changes from the other.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks.suite.batches_peers import recovery


def samples() -> None:
    """Recovery and processor seconds of a fit to all cells, of restarts on samples, and of their consensus."""
    import partwise
    from partwise.datasets import simulate_batches

    study = simulate_batches(10_000, 8000, mean_total=420.0, random_state=0)
    X, truth = study.table.matrix, study.dictionary.T
    batch = np.asarray(study.table.metadata["batch"])
    estimator = partwise.PoissonNMF(12, random_state=0, tol=1e-4, progress=False)
    estimator.fit(X[:200], batch=batch[:200])
    began = time.process_time()
    print(f"all cells: {recovery(estimator.fit(X, batch=batch).components_, truth):.3f}", time.process_time() - began)
    for size in (1000, 2500):
        began = time.process_time()
        print(f"{size} cells: {recovery(estimator.fit(X[:size], batch=batch[:size]).components_, truth):.3f}")
        print("seconds", time.process_time() - began)
        found = partwise.consensus(estimator, X, n_restarts=20, batch=batch, max_samples=size)
        print(f"consensus of {size}: {recovery(found.shares, truth):.3f}", time.process_time() - began)


def splitting() -> None:
    """Called fold changes: how many, their median size beside the true ones, and how often intervals hold these."""
    from partwise import CountMatrix, PoissonNMF
    from partwise.contract.differential import differential
    from partwise.datasets import simulate_batches
    from partwise.engines.local import LocalEngine

    for seed, depth in ((0, 1500.0), (1, 1500.0), (2, 1500.0), (3, 300.0)):
        data = simulate_batches(500, 300, n_groups=5, n_shared=2, mean_total=depth, effect=0.0, random_state=seed)
        counts = data.table.matrix.toarray().astype(np.int64)
        half = np.random.default_rng(seed).binomial(counts, 0.5)
        for name, first, second in (("all counts", counts, counts), ("halves", half, counts - half)):
            model = PoissonNMF(7, random_state=seed, progress=False).fit(first)
            for versus in ("all", "least-extreme"):
                found = differential(
                    model, CountMatrix.build(second), model.transform(first), LocalEngine(), versus, 0.1
                )
                told = _told(found, _true_changes(model, found, data.dictionary.T, data.activations.sum(axis=0)))
                print(f"seed {seed}, {depth:g} counts per cell, {name}, against {versus}: {told}", flush=True)


def _told(found: Any, true: Any) -> str:
    called = found.lfsr <= 0.05
    large = called & (np.abs(true) > 0.5)
    covered = np.mean((found.lower <= true) & (true <= found.upper), where=called)
    return f"{called.sum()} called, size {np.median(found.mean[large] / true[large]):.3f}, covered {covered:.3f}"


def _true_changes(model: Any, found: Any, truth: Any, weights: Any) -> Any:
    """True log2 changes of the parts that are matched to those of a model, against what it compared with."""
    n = len(truth)
    correlations = np.corrcoef(np.vstack((model.components_, truth)))[:n, n:]
    own = linear_sum_assignment(-correlations)[1]
    rates, totals = truth[own] / truth[own].sum(axis=1, keepdims=True), weights[own]
    changes = np.empty(rates.shape)
    for k in range(n):
        others = np.delete(np.arange(n), k)
        mixed = totals[others] @ rates[others] / totals[others].sum()
        nearest = rates[found.against[k], np.arange(rates.shape[1])]
        changes[k] = np.log2(
            np.maximum(rates[k], 1e-300) / np.maximum(np.where(found.against[k] < 0, mixed, nearest), 1e-300)
        )
    return changes


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"samples": samples, "splitting": splitting}[sys.argv[1]]()
