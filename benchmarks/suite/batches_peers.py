"""Simulated cells in batches: recovery of parts, prediction, processor time and memory, beside peers.

Four batches, eight cell types and four programmes that all of them use. Recovery is the smallest correlation between a
true part and the part that is matched to it. Prediction is the perplexity of held-out tokens of new cells, given the
parts that a package found; one function scores all packages. cNMF runs 20 restarts, as our consensus does. Each
measurement has a process of its own; memory is the rise of its peak. scHPF and fastTopics are not measured: they were
not installable here (no distribution on PyPI; an R package that Debian does not have).
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import NMF
from threadpoolctl import threadpool_limits

from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped
from benchmarks.harness.memory import settle, status
from benchmarks.harness.processes import run_module

_K, _RESTARTS = 12, 20
_NAME = "simulated cells, 1,000 x 800, 4 batches"
_FIGURES = {"recovery": "", "perplexity": "", "processor time": "s", "rise in peak memory": "MB"}


def measure(settings: Settings) -> Iterator[Line]:
    """Ours with and without batches beside scikit-learn, and our consensus beside cNMF."""
    ours, without, peer = (_measured(how, settings) for how in ("batched", "plain", "sklearn"))
    yield from _lines("with batch", ours, without, "the same without batch", Goal(1.0, "at least"))
    yield from _lines("with batch", ours, peer, "scikit-learn NMF, mu", Goal(1.0, "at least"))
    if find_spec("cnmf") is None:
        yield skipped("consensus of 20 restarts", _NAME, "cnmf is not installed")
        return
    agreed, theirs = (_measured(how, settings) for how in ("consensus", "cnmf"))
    yield from _lines("consensus with batch", agreed, theirs, f"cNMF, {_RESTARTS} restarts")


def _measured(how: str, settings: Settings) -> list[Any]:
    return [run_module("benchmarks.suite.batches_peers", how, str(seed)) for seed in range(settings.repeats)]


def _lines(ours_name: str, ours: Any, peer: Any, name: str, goal: Goal | None = None) -> Iterator[Line]:
    for at, (figure, unit) in enumerate(_FIGURES.items()):
        mine, theirs = (Sample.of([one[at] for one in side], unit) for side in (ours, peer))
        bound = goal if figure == "recovery" else None
        faster = figure == "processor time"
        yield Line(f"{ours_name}: {figure}", _NAME, mine, theirs, name, peer_over_ours=faster, goal=bound)


def main(how: str, seed: int) -> None:
    """Print recovery, perplexity, processor seconds and the rise in peak memory of one fit."""
    from partwise import PoissonNMF
    from partwise.datasets import simulate_batches

    packages = {"batched": _batched, "plain": _plain, "sklearn": _sklearn, "consensus": _consensus, "cnmf": _cnmf}
    study = simulate_batches(1250, 800, random_state=seed)
    X, batch = study.table.matrix, np.asarray(study.table.metadata["batch"])
    train = np.arange(X.shape[0]) % 5 > 0
    fit = packages[how]
    with threadpool_limits(1), contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(X[:200], batch[:200], 2)  # kernels are compiled and packages imported before the clock runs
        settle()
        held = status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        began = time.process_time()
        found = fit(X[train], batch[train], _K)
        seconds, rise = time.process_time() - began, status("VmHWM") - held
        if isinstance(found, np.ndarray):
            found = PoissonNMF.from_components(found)
        given = {"batch": batch[~train]} if hasattr(found, "batch_factors_") else {}
        perplexity = found.perplexity(X[~train], **given)
    json.dump([recovery(found.components_, study.dictionary.T), perplexity, seconds, rise / 1e6], sys.stdout)


def recovery(parts: Any, truth: Any) -> float:
    """The smallest correlation of a true part with the part that is matched to it."""
    from scipy.optimize import linear_sum_assignment

    correlations = np.corrcoef(np.vstack((truth, parts)))[: len(truth), len(truth) :]
    rows, columns = linear_sum_assignment(-correlations)
    return float(correlations[rows, columns].min())


def _batched(X: Any, batch: Any, k: int) -> Any:
    from partwise import PoissonNMF

    return PoissonNMF(k, random_state=0, progress=False).fit(X, batch=batch)


def _plain(X: Any, batch: Any, k: int) -> Any:
    from partwise import PoissonNMF

    return PoissonNMF(k, random_state=0, progress=False).fit(X)


def _sklearn(X: Any, batch: Any, k: int) -> Any:
    nmf = NMF(k, solver="mu", beta_loss="kullback-leibler", init="nndsvda", max_iter=500, random_state=0)
    return nmf.fit(X.astype(np.float64)).components_


def _consensus(X: Any, batch: Any, k: int) -> Any:
    import partwise

    estimator = partwise.PoissonNMF(k, random_state=0, tol=1e-5, progress=False)
    return partwise.consensus(estimator, X, n_restarts=_RESTARTS, batch=batch).model


def _cnmf(X: Any, batch: Any, k: int) -> Any:
    import anndata
    from cnmf import cNMF

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cells.h5ad"
        anndata.AnnData(X.astype(np.float64).tocsr()).write_h5ad(path)
        run = cNMF(output_dir=folder, name="run")
        run.prepare(counts_fn=str(path), components=[k], n_iter=_RESTARTS, seed=0, num_highvar_genes=X.shape[1])
        run.factorize()
        run.combine()
        run.consensus(k=k, density_threshold=0.5, show_clustering=False)
        _, _, per_million, _ = run.load_results(K=k, density_threshold=0.5)
    found = np.asarray(per_million, dtype=np.float64)
    return found if found.shape[0] == k else found.T


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
