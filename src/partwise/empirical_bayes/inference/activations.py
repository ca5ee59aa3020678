"""Posterior of the activations of samples, with dictionary and priors held fixed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.empirical_bayes.inference.rates import posteriors
from partwise.engines.base import Engine
from partwise.engines.blocks import row_blocks
from partwise.engines.local import LocalEngine
from partwise.poisson.inference.passes import Side
from partwise.priors.base import RatePrior

Floats = NDArray[np.float64]

_MOST_ROWS = 256


def expected_counts(
    data: SparseData,
    geometric: Floats,
    exposure: Floats,
    priors: Sequence[RatePrior],
    engine: Engine,
    *,
    tol: float = 1e-6,
    max_sweeps: int = 300,
) -> Floats:
    """Expected counts of each component in each row, of which the posterior of the activations follows.

    Each row is worked on until a sweep changes no expected count by more than ``tol`` of the row's total, on its own:
    its result is the same in any batch.

    Parameters
    ----------
    data
        The samples.
    geometric
        exp(E[log w_fk]), features x components.
    exposure
        What each component is exposed to in each row: rows x components, or one row for all.
    priors
        Of the activations, one for each component.
    engine
        Where blocks of rows are worked on.
    """
    # Counts of features that no component holds say nothing.
    data = data.only(np.any(geometric > 0, axis=1)[data.indices])
    counts = np.empty((data.shape[0], geometric.shape[1]))

    def one(block: tuple[int, int]) -> None:
        start, stop = block
        rows = exposure if exposure.shape[0] == 1 else exposure[start:stop]
        counts[start:stop] = _block(data.rows(start, stop), geometric, rows, priors, tol, max_sweeps)

    engine.for_each(one, row_blocks(data.indptr, most_rows=_MOST_ROWS))
    return counts


def _block(
    data: SparseData, geometric: Floats, exposure: Floats, priors: Sequence[RatePrior], tol: float, max_sweeps: int
) -> Floats:
    here = LocalEngine()
    side = Side(data, here)
    n_components = geometric.shape[1]
    counts = np.repeat(data.row_sums[:, None] / n_components, n_components, axis=1)
    active = data.row_sums > 0
    for _ in range(max_sweeps):
        if not active.any():
            break
        _, activations, _ = posteriors(counts, exposure, priors, here)
        moved, _ = side.expected_counts(activations, geometric)
        change = np.abs(moved - counts).max(axis=1)
        counts[active] = moved[active]
        active &= change > tol * data.row_sums
    return counts
