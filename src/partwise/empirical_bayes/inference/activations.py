"""Posterior of the activations of samples, with dictionary and priors fixed."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from partwise.core.data import SparseData
from partwise.empirical_bayes.inference.rates import posteriors
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made, row_blocks
from partwise.engines.local import LocalEngine
from partwise.kernels.arrays import Floats, Places
from partwise.passes.side import Side
from partwise.priors.base import RatePrior

Priors = Sequence[RatePrior]
_MOST_ROWS = 256
_TOL, _MOST_SWEEPS = 1e-6, 10_000
# Jumps are tried once steps are smaller than this share of a row's total: earlier they may lead to another maximum.
_NEAR = 1e-4
# A jump is taken if it leaves less than this share of the last step. Then, the slowest convergence to detect.
_WORTH, _SLOWEST = 0.9, 0.9999


def expected_counts(
    data: SparseData,
    geometric: Floats,
    exposure: Floats,
    priors: Priors,
    engine: Engine,
    *,
    tol: float = _TOL,
    max_sweeps: int = _MOST_SWEEPS,
) -> Floats:
    """Expected counts of each part in each row. They determine the posterior of the activations.

    Each row is updated on its own until its expected counts are within ``tol`` of the row's total of their limit, as
    far as the last steps show. So its result is the same in any batch. If some rows have not converged after
    ``max_sweeps``, there is one warning.

    Parameters
    ----------
    data
        The samples.
    geometric
        exp(E[log w_fk]), features x parts.
    exposure
        What each part is exposed to in each row: rows x parts, or a single row for all.
    priors
        Priors of the activations, one per part.
    engine
        Where blocks of rows are processed.
    """
    shared, made = (geometric, priors, tol, max_sweeps), [Made(geometric.shape[1:]), Made(())]
    blocks = row_blocks(data.indptr, most_rows=_MOST_ROWS)
    _, (counts, left) = engine.map_rows(_settle, data, blocks, *shared, reads=[exposure], makes=made)
    if (left > tol).any():
        warnings.warn(
            f"after {max_sweeps} sweeps the activations of {np.sum(left > tol)} of {left.size} samples have not"
            f" settled, and may move by {100.0 * min(left.max(), 1.0):.2g} percent of a sample's total: fit fewer"
            " parts, or a prior that shrinks less.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return np.asarray(counts)


def _settle(
    block: Block, exposure: Floats, counts: Floats, left: Floats, geometric: Floats, priors: Priors, *limits: Any
) -> None:
    rows = block.data.rows(block.start, block.stop)
    # Counts of features that no part holds say nothing.
    rows = rows.only(np.any(geometric > 0, axis=1)[rows.indices])
    counts[block.rows], left[block.rows] = settled(_Rows(rows, geometric, block.own(exposure), priors), *limits)


@dataclass
class _Rows:
    """Some rows. Those that have converged need no more work."""

    data: SparseData
    geometric: Floats
    exposure: Floats
    priors: Priors

    def __post_init__(self) -> None:
        self._here = LocalEngine()
        self._cells, self._n_active = self.data, self.data.shape[0]

    def moved(self, counts: Floats, active: Places) -> Floats:
        """The expected counts of the active rows after one sweep: a posterior, and the allocations under it."""
        n_rows = self.data.shape[0]
        if 2 * active.size <= self._n_active:
            kept = np.zeros(n_rows, dtype=np.bool_)
            kept[active] = True
            self._cells, self._n_active = self.data.only(np.repeat(kept, np.diff(self.data.indptr))), active.size
        exposure = self.exposure if self.exposure.shape[0] == 1 else self.exposure[active]
        activations = np.zeros((n_rows, counts.shape[1]))
        activations[active] = posteriors(counts, exposure, self.priors, self._here)[1]
        found, _ = Side(self._cells, self._here).expected_counts(activations, self.geometric)
        return np.asarray(found[active])


def settled(rows: _Rows, tol: float, max_sweeps: int) -> tuple[Floats, Floats]:
    """The limit of the sweeps from equal shares, and how far each row may be from it, as a share of its total.

    Two sweeps show the direction and how fast steps shrink. A jump goes to the limit of such a geometric series
    (SQUAREM; Varadhan & Roland 2008), and is taken if the step after it is shorter. The remaining distance is that
    series with the slowest ratio seen in a row, because after a jump the fast directions hide the slow ones.
    """
    totals = rows.data.row_sums
    n_components = rows.geometric.shape[1]
    counts = np.repeat(totals[:, None] / n_components, n_components, axis=1)
    left = np.where(totals > 0, np.inf, 0.0)
    slowest = np.zeros(totals.size)
    active = np.flatnonzero(totals > 0)
    for _ in range(max(max_sweeps // 3, 1)):
        if not active.size:
            break
        begun, total = counts[active], totals[active]
        once = rows.moved(begun, active)
        twice = rows.moved(once, active)
        step, bend = once - begun, twice - 2.0 * once + begun
        first, second = np.abs(step).max(axis=1), np.abs(twice - once).max(axis=1)
        ratio = np.where(second < first, second / np.maximum(first, 1e-300), 0.0)
        slowest[active] = np.maximum(slowest[active], np.minimum(ratio, _SLOWEST))
        left[active] = second / total * np.maximum(1.0, slowest[active] / (1.0 - slowest[active]))
        ahead = np.linalg.norm(step, axis=1) / np.maximum(np.linalg.norm(bend, axis=1), 1e-300)
        ahead = np.clip(ahead, 1.0, 1.0 / (1.0 - _SLOWEST))[:, None]
        aimed = begun + ahead * (2.0 * step + ahead * bend)
        inside = (aimed.min(axis=1) > 0) & (second < first) & (first < _NEAR * total)
        aimed = np.where(inside[:, None], aimed * (total / np.where(inside, aimed.sum(axis=1), 1.0))[:, None], twice)
        jumped = rows.moved(aimed, active)
        failed = inside & (np.abs(jumped - aimed).max(axis=1) > _WORTH * first)
        # If no jump was tried, this is a third sweep.
        counts[active] = np.where(failed[:, None], twice, jumped)
        active = active[left[active] > tol]
    return counts, left
