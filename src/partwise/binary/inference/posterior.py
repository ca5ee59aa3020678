"""Turn labels, expected counts or factors into results: moments of factors and cells, kept draws, the posterior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.binary.inference.cells import Cells
from partwise.binary.kernels.cells import log_likelihood_of_block
from partwise.binary.model import BinaryModel, Priors
from partwise.engines.base import Engine
from partwise.kernels.arrays import Floats
from partwise.sampling.draws import KeptDraws, stacking_weights

Numbers = NDArray[np.int32] | Floats


class FactorMoments(NamedTuple):
    """Means and variances of a factor and, for a Dirichlet factor, the precision of each row (None for beta)."""

    mean: Floats
    variance: Floats
    precision: Floats | None

    def rows(self, start: int, stop: int) -> FactorMoments:
        """The moments of some rows."""
        precision = None if self.precision is None else self.precision[start:stop]
        return FactorMoments(self.mean[start:stop], self.variance[start:stop], precision)


def beta_moments(counts: Numbers, alpha: Floats, beta: Floats) -> FactorMoments:
    """Moments of h_nk ~ Beta(alpha + ones, beta + zeros), with counts rows x parts x bit (Eq. 27, 29)."""
    ones, zeros = alpha + counts[..., 1], beta + counts[..., 0]
    both = ones + zeros
    mean = ones / both
    return FactorMoments(mean, mean * (zeros / both) / (both + 1.0), None)


def dirichlet_moments(counts: Numbers, concentration: Floats) -> FactorMoments:
    """Moments of w_f. ~ Dirichlet(concentration + counts). Only observed cells count for its precision (Eq. 26, 28)."""
    parameters = concentration + counts
    precision = parameters.sum(axis=1)
    mean = parameters / precision[:, None]
    return FactorMoments(mean, mean * (1.0 - mean) / (precision[:, None] + 1.0), precision)


def row_moments(model: BinaryModel, counts: Numbers) -> FactorMoments:
    """Moments of the row factor: beta, or for Dir-Dir Dirichlet."""
    if model.kind == "dir-dir":
        return dirichlet_moments(counts, model.priors.activation_concentration)
    return beta_moments(counts, model.priors.alpha, model.priors.beta)


def cell_moments(rows: FactorMoments, columns: FactorMoments) -> tuple[Floats, Floats]:
    """E[p] and E[p²] of p = Σ_k w_k h_k for every cell, for independent factors.

    With precision s and mean m of w, E[w_k w_l] = (s m_k m_l + [k = l] m_k) / (s + 1). The same holds for h; the
    entries of a beta factor are independent over k.
    """
    assert columns.precision is not None
    mean, s = columns.mean, columns.precision[None, :]
    first = rows.mean @ mean.T
    if rows.precision is None:
        squares = (rows.mean**2 + rows.variance) @ mean.T
        return first, (s * (first**2 + rows.variance @ (mean**2).T) + squares) / (s + 1.0)
    t = rows.precision[:, None]
    cross = s * (rows.mean @ (mean**2).T) + t * ((rows.mean**2) @ mean.T)
    return first, (s * t * first**2 + cross + first) / ((s + 1.0) * (t + 1.0))


@dataclass
class BinaryDraws(KeptDraws):
    """Sums over kept draws of conditional moments given the labels (Rao-Blackwellised), and numbers of each draw.

    Sums of factors are kept by chain. So are those of cells if chains are weighted; otherwise all chains share one sum.
    The leading axis of a sum holds means first, squares second. ``left_out``, chains x observed cells, sums 1 / P(value
    of a cell | all other cells and their labels). It has no cells unless chains are weighted.
    """

    names: ClassVar[tuple[str, ...]] = (
        "log_joint",
        "log_likelihood",
        "n_active",
        "missing_probability",
        "total_concentration",
    )
    untraced: ClassVar[tuple[str, ...]] = ("missing_probability", "total_concentration")

    probability: Floats
    rows: Floats
    columns: Floats
    component_cells: Floats
    priors: Floats
    left_out: Floats

    @classmethod
    def empty(cls, cells: Cells, n_components: int, n_chains: int, n_draws: int, weighs: bool = False) -> BinaryDraws:
        """Allocate storage for ``n_draws`` draws from ``n_chains`` chains, which are weighted or count the same."""
        n_rows, n_columns = cells.shape
        return cls(
            numbers=cls.no_numbers(n_chains, n_draws),
            n_kept=0,
            probability=np.zeros((2, n_chains if weighs else 1, n_rows, n_columns)),
            rows=np.zeros((2, n_chains, n_rows, n_components)),
            columns=np.zeros((2, n_chains, n_columns, n_components)),
            component_cells=np.zeros((n_chains, n_components)),
            priors=np.zeros((n_chains, len(Priors._fields), n_components)),
            left_out=np.zeros((n_chains, cells.n_cells if weighs else 0)),
        )

    def chain_weights(self) -> Floats:
        """Weight of each chain in predictions, by what it says of cells that are left out."""
        return stacking_weights(self.n_kept / self.left_out)

    def keep(
        self,
        cells: Cells,
        moments: Sequence[tuple[FactorMoments, FactorMoments]],
        component_cells: NDArray[np.int64],
        log_joint: Sequence[float],
        total_concentration: Sequence[float],
        active_threshold: float,
        engine: Engine,
        leave_out: Callable[[int, int, int, Floats, Floats], None] | None = None,
    ) -> None:
        """Add one draw of every chain: its moments of the row and column factors, and the cells of each part.

        Rows are processed in parallel, and chains one after the other in each, so that sums have a fixed order.
        ``leave_out(chain, start, stop, probability, out)`` adds a block of rows to ``left_out``.
        """

        def one(block: tuple[int, int]) -> Floats:
            start, stop = block
            found = np.empty((self.n_chains, 2))
            for chain, (rows, columns) in enumerate(moments):
                first, second = cell_moments(rows.rows(start, stop), columns)
                at = chain % self.probability.shape[1]
                self.probability[0, at, start:stop] += first
                self.probability[1, at, start:stop] += second
                if leave_out is not None:
                    leave_out(chain, start, stop, first, self.left_out[chain])
                log_likelihood, observed = log_likelihood_of_block(cells.row_starts, cells.codes, first, start, stop)
                found[chain] = log_likelihood, first.sum() - observed
            return found

        found = engine.map_reduce(one, cells.blocks)
        for chain, factors in enumerate(moments):
            for sums, own in zip((self.rows, self.columns), factors, strict=True):
                sums[0, chain] += own.mean
                sums[1, chain] += own.variance + own.mean**2
        self.component_cells += component_cells
        n_missing = cells.shape[0] * cells.shape[1] - cells.n_cells
        self.record(
            log_joint=log_joint,
            log_likelihood=found[:, 0],
            n_active=(component_cells >= active_threshold * cells.n_cells).sum(axis=1),
            missing_probability=found[:, 1] / n_missing if n_missing else np.nan,
            total_concentration=total_concentration,
        )


@dataclass(frozen=True)
class Posterior:
    """Means and standard deviations (or None) of everything, for the user.

    Attributes
    ----------
    activations, dictionary, probability
        Samples x parts, features x parts, samples x features.
    component_cells
        Number of observed cells that each part explains.
    priors
        Parameters of the priors: given, or learned.
    """

    activations: Floats
    dictionary: Floats
    probability: Floats
    component_cells: Floats
    priors: Priors
    activations_std: Floats | None = None
    dictionary_std: Floats | None = None
    probability_std: Floats | None = None


def posterior_of_draws(model: BinaryModel, draws: BinaryDraws) -> Posterior:
    """Averages over the kept draws: of cells over all chains by their weights, of factors over the likeliest chain."""
    kept, best = draws.n_kept, draws.likeliest
    weights = draws.chain_weights()[: draws.probability.shape[1], None, None] / kept
    rows, columns = (_mean_and_std(*(sums[:, best] / kept)) for sums in (draws.rows, draws.columns))
    cells = _mean_and_std(*((draws.probability * weights).sum(axis=1)))
    learned = model.with_priors(draws.priors[best] / kept)
    return _oriented(learned, rows, columns, cells, draws.component_cells[best] / kept)


def posterior_of_counts(model: BinaryModel, row_counts: Floats, column_counts: Floats) -> Posterior:
    """The posterior from expected counts, which are the parameters of independent factors (Eq. 37 to 39)."""
    rows, columns = row_moments(model, row_counts), dirichlet_moments(column_counts, model.priors.concentration)
    row_factor, column_factor = ((own.mean, np.sqrt(own.variance)) for own in (rows, columns))
    cells = _mean_and_std(*cell_moments(rows, columns))
    return _oriented(model, row_factor, column_factor, cells, column_counts.sum(axis=0))


def posterior_of_factors(model: BinaryModel, cells: Cells, rows: Floats, columns: Floats) -> Posterior:
    """The posterior from maximised factors: points, without spread."""
    shares = (columns * cells.column_sizes[:, None]).sum(axis=0)
    return _oriented(model, (rows, None), (columns, None), (rows @ columns.T, None), shares)


def shares_or(part: Floats, whole: Floats, otherwise: Floats) -> Floats:
    """``part / whole``, and ``otherwise`` if nothing was observed and the whole is 0."""
    whole = np.broadcast_to(whole, part.shape)
    return np.divide(part, whole, out=otherwise.copy(), where=whole > 0)


_Estimate = tuple[Floats, Floats | None]


def _mean_and_std(mean: Floats, square: Floats) -> _Estimate:
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _oriented(
    model: BinaryModel, rows: _Estimate, columns: _Estimate, cells: _Estimate, component_cells: Floats
) -> Posterior:
    """Build the posterior. Rows are samples, except for Dir-Beta, where they are features."""
    activations, dictionary = rows, columns
    if model.kind == "dir-beta":
        activations, dictionary = columns, rows
        mean, std = cells
        cells = np.ascontiguousarray(mean.T), None if std is None else np.ascontiguousarray(std.T)
    stds = activations[1], dictionary[1], cells[1]
    return Posterior(activations[0], dictionary[0], cells[0], component_cells, model.priors, *stds)
