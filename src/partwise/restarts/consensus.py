"""``partwise.consensus``: fit a model from many random starts, and keep the parts that the fits agree on.

Also, tables of a consensus with the names and layout of cNMF's, so that scripts for its output keep working.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing

from partwise.contract.batch_labels import batch_labels
from partwise.contract.estimator import FactorizationEstimator
from partwise.core.data import SparseData
from partwise.core.keys import Key, RandomState, key_from
from partwise.engines.local import LocalEngine
from partwise.errors import InvalidInputError
from partwise.io.writing_tables import format_cells, write_rows
from partwise.kernels.arrays import Floats, Places
from partwise.metrics.matching import stability
from partwise.poisson.estimator import PoissonNMF
from partwise.restarts.clustering import PartClusters, cluster_parts


def write_cnmf_tables(
    found: Consensus, folder: str | os.PathLike[str], name: str, *, density_threshold: float = 0.5, samples: Any = None
) -> list[Path]:
    """Write usages, spectra and spectra per million, tab-separated, as cNMF's consensus step does.

    Parameters
    ----------
    found
        The consensus.
    folder
        Folder to write to; it is created if needed.
    name
        Name of the run; each file name starts with it.
    density_threshold
        The threshold that was used; it is part of the file names.
    samples
        Names of the samples; positions from 0 by default.

    Returns
    -------
    list of Path
        The files: ``NAME.usages.k_K.dt_T.consensus.txt`` (samples x parts, activations),
        ``NAME.spectra.k_K.dt_T.consensus.txt`` (parts x features, shares) and ``NAME.gene_spectra_tpm.k_K.dt_T.txt``
        (parts x features, per million). Parts are numbered from 1, as in cNMF.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, partwise
    >>> from partwise.restarts import write_cnmf_tables
    >>> X = np.random.default_rng(0).poisson(np.kron(np.eye(2), np.full((20, 4), 5.0)))
    >>> found = partwise.consensus(partwise.PoissonNMF(2, random_state=0), X, n_restarts=3)
    >>> for path in write_cnmf_tables(found, tempfile.mkdtemp(), "run"):
    ...     print(path.name)
    run.usages.k_2.dt_0_5.consensus.txt
    run.spectra.k_2.dt_0_5.consensus.txt
    run.gene_spectra_tpm.k_2.dt_0_5.txt
    """
    where = Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    ending = f"k_{found.n_components}.dt_{f'{density_threshold:g}'.replace('.', '_')}"
    parts = [str(k + 1) for k in range(found.n_components)]
    features = found.model.feature_labels()
    rows = [str(n) for n in range(len(found.activations))] if samples is None else [str(label) for label in samples]
    tables = {
        f"{name}.usages.{ending}.consensus.txt": (found.activations, rows, parts),
        f"{name}.spectra.{ending}.consensus.txt": (found.shares, parts, features),
        f"{name}.gene_spectra_tpm.{ending}.txt": (1e6 * found.shares, parts, features),
    }
    for file, (matrix, names, columns) in tables.items():
        rows_of = zip(names, map(np.asarray, matrix), strict=True)
        lines = ([label, *format_cells(row, neutralise=False)] for label, row in rows_of)
        write_rows(where / file, "\t", [["", *columns], *lines])
    return [where / file for file in tables]


# Quantiles of the bands: how much a part varies between restarts.
_LOW, _HIGH = 0.05, 0.95


@dataclass(frozen=True, eq=False)
class Consensus:
    """What the restarts of one model agree on.

    Attributes
    ----------
    model
        A fitted model with the consensus parts, held fixed; `transform` refits activations to new samples.
    activations
        Activations of the training samples, samples x parts.
    shares, lower, upper
        Parts x features: median, 5% and 95% quantiles of a feature's share of the part, over the members of the part.
        They show how a part varies between restarts (and, with ``max_samples``, between random samples), which is not
        the uncertainty that the data leave.
    clusters
        The parts of all restarts, and their clusters.
    n_restarts
        Number of restarts.
    stability
        Mean cosine of matched parts over all pairs of restarts: the same as in `partwise.selection.compare`.
    """

    model: Any
    activations: Floats
    shares: Floats
    lower: Floats
    upper: Floats
    clusters: PartClusters
    n_restarts: int
    stability: float

    @property
    def n_components(self) -> int:
        """Number of consensus parts."""
        return len(self.shares)

    @property
    def members(self) -> Places:
        """How many restarts found each part."""
        return np.bincount(self.clusters.labels[self.clusters.labels >= 0], minlength=self.n_components)

    @property
    def n_outliers(self) -> int:
        """Number of parts that belong to no consensus part."""
        return int(np.sum(self.clusters.labels < 0))

    def __str__(self) -> str:
        """The result in one sentence."""
        return (
            f"{self.n_components} consensus parts of {self.n_restarts} restarts: stability {self.stability:.3f},"
            f" silhouette {self.clusters.silhouette:.3f} (1 is best for both), {self.n_outliers} parts left out."
        )


def consensus(
    estimator: FactorizationEstimator,
    X: Any,
    *,
    n_restarts: int = 50,
    batch: Any = None,
    max_samples: int | None = None,
    density_threshold: float = 0.5,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> Consensus:
    """Fit a model from many random starts, cluster the parts, and refit activations to the consensus parts.

    Parameters
    ----------
    estimator
        The model to fit, with its number of parts; it is not changed. With a Dask ``engine``, workers fit the restarts,
        one after the other.
    X
        Data as for `fit`.
    n_restarts
        Number of random starts, at least 2.
    batch
        The batch of each sample, for models that take batches.
    max_samples
        Number of samples for each restart, at least 2, drawn at random; None = all. Activations are always refitted to
        all samples.
    density_threshold
        Parts whose mean distance to their nearest 30% is larger are outliers; from 0 to 1.41. 2 keeps all parts.
    random_state
        Seed for all restarts; None = that of the estimator.
    n_jobs
        Number of restarts fitted at the same time. It does not change the result. None = that of the estimator.

    Returns
    -------
    Consensus
        Parts with bands, activations, stability and silhouette. Memory grows with restarts x parts x features.

    Examples
    --------
    >>> import partwise
    >>> from partwise.datasets import simulate_poisson
    >>> table = simulate_poisson(80, 30, 3, random_state=0).table
    >>> found = partwise.consensus(partwise.PoissonNMF(3, random_state=0), table, n_restarts=6)
    >>> found.members.tolist(), found.stability > 0.95
    ([6, 6, 6], True)
    """
    for name, value in (("n_restarts", n_restarts), ("max_samples", max_samples)):
        if value is not None and value < 2:
            raise InvalidInputError(f"{name} must be at least 2, got {value}.")
    given = {} if batch is None else {"batch": batch}
    if given and not estimator.declares.batches:
        raise InvalidInputError(f"{type(estimator).__name__} does not take batch: leave it out, or use PoissonNMF.")
    key = key_from(estimator.random_state if random_state is None else random_state)
    drawn = partial(_drawn, X, given, max_samples, key.for_stage("samples of restarts"))
    fits = _fits(estimator, drawn, key, n_restarts, n_jobs)
    active = [fit.shares for fit in fits]
    n_parts = int(np.median([len(parts) for parts in active]))
    clusters = cluster_parts(active, n_parts, density_threshold=density_threshold)
    stacked, sizes = np.concatenate(active), np.concatenate([fit.sizes for fit in fits])
    bands, scales = np.empty((3, n_parts, stacked.shape[1])), np.empty(n_parts)
    for k in range(n_parts):
        own = clusters.members(k)
        bands[:, k] = np.quantile(stacked[own], (0.5, _LOW, _HIGH), axis=0)
        scales[k] = np.median(sizes[own])
    shares = bands[0] / np.maximum(bands[0].sum(axis=1, keepdims=True), 1e-300)
    model = _with_parts(estimator, X, shares * scales[:, None], given, fits[0].model)
    activations = model.transform(X, **given)
    return Consensus(model, activations, shares, bands[1], bands[2], clusters, n_restarts, stability(active))


def consensus_by_rank(
    estimator: FactorizationEstimator, X: Any, ranks: Sequence[int], **options: Any
) -> list[Consensus]:
    """Compute the consensus for several choices of K, to see where stability and silhouette are high.

    Parameters
    ----------
    estimator, X
        As for `consensus`.
    ranks
        How many parts to fit, such as ``[3, 4, 5]``.
    options
        Further arguments of `consensus`.

    Examples
    --------
    >>> import numpy as np, partwise
    >>> from partwise.restarts import consensus_by_rank
    >>> X = np.random.default_rng(0).poisson(np.kron(np.eye(2), np.full((20, 4), 5.0)))
    >>> for found in consensus_by_rank(partwise.PoissonNMF(random_state=0), X, [1, 2], n_restarts=3):
    ...     print(found)
    1 consensus parts of 3 restarts: stability 1.000, silhouette 0.000 (1 is best for both), 0 parts left out.
    2 consensus parts of 3 restarts: stability 1.000, silhouette 1.000 (1 is best for both), 0 parts left out.
    """
    return [consensus(clone(estimator).set_params(n_components=int(rank)), X, **options) for rank in ranks]


@dataclass(frozen=True, eq=False)
class _Restart:
    """What is kept of each fit: shares and sizes of its active parts."""

    shares: Floats
    sizes: Floats
    model: Any
    converged: bool


def _fits(estimator: Any, drawn: Any, key: Key, n_restarts: int, n_jobs: int | None) -> list[_Restart]:
    seeds = key.for_stage("restarts").generator().integers(2**31, size=n_restarts)
    workers = LocalEngine(estimator.n_jobs if n_jobs is None else n_jobs).n_threads if estimator.engine is None else 1

    def one(number: int) -> _Restart:
        model = clone(estimator).set_params(random_state=int(seeds[number]), progress=False)
        data, batches = drawn(number)
        model.set_params(n_jobs=1 if workers > 1 else model.n_jobs).fit(data, **batches)
        active, converged = model.active_components_, model.status_.code == "converged"
        parts, sizes = model.feature_importance()[active], np.abs(model.components_).sum(axis=1)[active]
        # Only the first is kept as a whole, for its batch factors and its class.
        return _Restart(parts, sizes, model if number == 0 else None, converged)

    with warnings.catch_warnings(), ThreadPoolExecutor(workers) as pool:
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = list(pool.map(one, range(n_restarts)))
    late = n_restarts - sum(fit.converged for fit in found)
    if late:
        told = f"{late} of {n_restarts} restarts did not converge: raise max_iter= or tol= of the estimator."
        warnings.warn(told, ConvergenceWarning, stacklevel=3)
    return found


def _drawn(X: Any, given: dict[str, Any], n: int | None, key: Key, restart: int) -> tuple[Any, dict[str, Any]]:
    """Samples of a restart with their batches, drawn without replacement; all if there are no more."""
    n_samples = X.shape[0] if hasattr(X, "shape") else len(X)
    if n is None or n >= n_samples:
        return X, given
    rows = np.sort(key.at(restart).generator().choice(n_samples, n, replace=False))
    drawn = X.rows(0, n_samples).take(rows) if isinstance(X, SparseData) else _safe_indexing(X, rows)
    return drawn, {name: batch_labels(batch, X, n_samples)[rows] for name, batch in given.items()}


def _with_parts(estimator: Any, X: Any, parts: Floats, given: dict[str, Any], first: Any) -> Any:
    """A fitted model with given parts: of the same class if it accepts them, otherwise by maximum likelihood."""
    names = {"feature_names": first.known_features, "n_jobs": estimator.n_jobs, "engine": estimator.engine}
    cls: Any = PoissonNMF
    if estimator.declares.given_parts:
        cls, names = type(estimator), {**estimator.get_params(deep=False), **names}
    names.pop("n_components", None)
    model = cls.from_components(parts, **names)
    if given:
        model.estimate_batches(X, given["batch"], strength=first.batch_strength_)
    return model
