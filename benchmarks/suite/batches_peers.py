"""Simulated cells in batches: recovery of cell types and programmes, prediction and processor time, beside peers.

Four batches, eight cell types and four programmes that all of them use. Recovery is the smallest correlation between a
true part and the part that is matched to it; prediction is the perplexity of held-out tokens of new cells. cNMF runs 20
restarts, as our consensus does. scHPF (compiled against old versions of NumPy) and fastTopics (an R package) are not
measured.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import NMF
from threadpoolctl import threadpool_limits

from benchmarks.harness.line import Goal, Line, Sample, Settings, skipped

_K, _RESTARTS = 12, 20
_NAME = "simulated cells, 1,000 x 800, 4 batches"


def measure(settings: Settings) -> Iterator[Line]:
    """Recovery, perplexity and processor time of ours with and without batches, beside scikit-learn and cNMF."""
    from partwise.datasets import simulate_batches

    studies = [simulate_batches(1250, 800, random_state=seed) for seed in range(settings.repeats)]
    small = simulate_batches(100, 50, random_state=0)
    for how in (_batched, _plain):
        _measured(how, small)  # kernels are compiled before the clock runs
    ours, without, peer = ([_measured(how, study) for study in studies] for how in (_batched, _plain, _sklearn))
    for other, name in ((without, "the same without batch"), (peer, "scikit-learn NMF, mu")):
        yield Line(
            "recovery with batch", _NAME, _column(ours, 0), _column(other, 0), name, False, Goal(1.0, "at least")
        )
        yield Line("perplexity with batch", _NAME, _column(ours, 1), _column(other, 1), name, peer_over_ours=False)
        yield Line("processor time with batch", _NAME, _column(ours, 2, "s"), _column(other, 2, "s"), name)
    if find_spec("cnmf") is None:
        yield skipped("consensus of 20 restarts", _NAME, "cnmf is not installed")
        return
    agreed, theirs = ([_measured(how, study) for study in studies] for how in (_consensus, _cnmf))
    name = f"cNMF, {_RESTARTS} restarts"
    yield Line("consensus: recovery", _NAME, _column(agreed, 0), _column(theirs, 0), name, False)
    yield Line("consensus: processor time", _NAME, _column(agreed, 2, "s"), _column(theirs, 2, "s"), name)


def _measured(how: Any, study: Any) -> tuple[float, float, float]:
    """Recovery, perplexity (nan where a package has none) and processor seconds."""
    train = np.arange(study.table.shape[0]) % 5 > 0
    batch = np.asarray(study.table.metadata["batch"])
    with threadpool_limits(1):
        began = time.process_time()
        parts, perplexity = how(study.table.matrix, train, batch)
    return recovery(parts, study.dictionary.T), perplexity, time.process_time() - began


def recovery(parts: Any, truth: Any) -> float:
    """The smallest correlation of a true part with the part that is matched to it."""
    from scipy.optimize import linear_sum_assignment

    correlations = np.corrcoef(np.vstack((truth, parts)))[: len(truth), len(truth) :]
    rows, columns = linear_sum_assignment(-correlations)
    return float(correlations[rows, columns].min())


def _column(measured: list[tuple[float, float, float]], at: int, unit: str = "") -> Sample:
    return Sample.of([one[at] for one in measured], unit)


def _batched(X: Any, train: Any, batch: Any) -> tuple[Any, float]:
    from partwise import PoissonNMF

    model = PoissonNMF(_K, random_state=0, progress=False).fit(X[train], batch=batch[train])
    return model.components_, model.perplexity(X[~train], batch=batch[~train])


def _plain(X: Any, train: Any, batch: Any) -> tuple[Any, float]:
    from partwise import PoissonNMF

    model = PoissonNMF(_K, random_state=0, progress=False).fit(X[train])
    return model.components_, model.perplexity(X[~train])


def _sklearn(X: Any, train: Any, batch: Any) -> tuple[Any, float]:
    from partwise import PoissonNMF

    nmf = NMF(_K, solver="mu", beta_loss="kullback-leibler", init="nndsvda", max_iter=500, random_state=0)
    nmf.fit(X[train].astype(np.float64))
    # Scored by the same code as ours: activations of half of each new cell, the other half predicted.
    return nmf.components_, PoissonNMF.from_components(nmf.components_).perplexity(X[~train])


def _consensus(X: Any, train: Any, batch: Any) -> tuple[Any, float]:
    import partwise

    estimator = partwise.PoissonNMF(_K, random_state=0, tol=1e-5, progress=False)
    found = partwise.consensus(estimator, X[train], n_restarts=_RESTARTS, batch=batch[train])
    return found.shares, float("nan")


def _cnmf(X: Any, train: Any, batch: Any) -> tuple[Any, float]:
    import anndata
    from cnmf import cNMF

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cells.h5ad"
        anndata.AnnData(X[train].astype(np.float64).tocsr()).write_h5ad(path)
        run = cNMF(output_dir=folder, name="run")
        run.prepare(counts_fn=str(path), components=[_K], n_iter=_RESTARTS, seed=0, num_highvar_genes=X.shape[1])
        run.factorize()
        run.combine()
        run.consensus(k=_K, density_threshold=0.5, show_clustering=False)
        _, _, per_million, _ = run.load_results(K=_K, density_threshold=0.5)
    found = np.asarray(per_million)
    return found if found.shape[0] == _K else found.T, float("nan")
