"""Majorisation for negative-binomial factorization: multiplicative updates, and Newton steps for the sizes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.core.run import run
from partwise.core.stopping import small_change
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made, row_blocks
from partwise.kernels.arrays import Floats
from partwise.negative_binomial import kernels
from partwise.passes.side import Floors, activation_floor
from partwise.poisson.inference.coordinate import CoordinateDescent, with_columns
from partwise.poisson.inference.passes import solve_activations

SMALLEST_SIZE, LARGEST_SIZE = 1e-3, 1e9
"""Bounds of estimated sizes: from the larger one on, the noise is Poisson in all that double precision shows."""

# Cells, zeros included, that a block of rows holds; and rows, so that sums over its features cost little.
_CELLS_AT_ONCE, _FEWEST_ROWS = 2**18, 16
_SWEEPS = 5
_FIRST_SIZE, _START_ITERATIONS, _START_TOL = 10.0, 200, 1e-4
_LONGEST_STEP, _SHORTEST_STEP, _STEPS = 2.0, 1e-3, 3
_MOST_UPDATES, _ROW_TOL = 300, 1e-6

Terms = NDArray[np.float64]


@dataclass
class NegativeBinomialState:
    """Activations and sizes of rows (both may be on workers), dictionary (features x parts), sizes of features."""

    activations: Any
    dictionary: Floats
    row_sizes: Any
    feature_sizes: Floats


def dense_blocks(data: SparseData) -> list[tuple[int, int]]:
    """Ranges of rows with about equally many cells: the cost is that of all cells, not of nonzeros."""
    return row_blocks(data.indptr, max(1, data.nnz), max(_FEWEST_ROWS, _CELLS_AT_ONCE // data.shape[1]))


@dataclass
class Majorisation:
    """Multiplicative updates of both factors, five for each Newton update of the sizes; none lowers the likelihood.

    Attributes
    ----------
    n_components
        Number of parts.
    dispersion
        Whose sizes are estimated: ``"common"``, ``"feature"``, ``"sample"``; or the size of all.
    engine
        Where blocks of rows are processed.
    """

    n_components: int
    dispersion: str | float
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: SparseData) -> NegativeBinomialState:
        """The factors of maximum likelihood under Poisson noise."""
        rule = small_change(_START_TOL, data.total)
        whole, engine = with_columns(data, self.engine)
        solver = CoordinateDescent(self.n_components, "random", engine)
        found = run(
            solver, whole, key=key.for_stage("start"), max_iter=_START_ITERATIONS, convergence=rule, progress=False
        ).state
        size = _FIRST_SIZE if isinstance(self.dispersion, str) else float(self.dispersion)
        sizes = np.ones(data.shape[0]), np.full(data.shape[1], size)
        if self.dispersion == "sample":
            sizes = np.full(data.shape[0], size), np.ones(data.shape[1])
        return NegativeBinomialState(np.asarray(found.activations), found.dictionary, *sizes)

    def step(
        self, key: Key, data: SparseData, state: NegativeBinomialState
    ) -> tuple[NegativeBinomialState, Mapping[str, float]]:
        """Improve factors, then sizes; reports the log-likelihood that they reach."""
        blocks = dense_blocks(data)
        floors = Floors.of(data, self.n_components).dictionary
        place = self.engine.place
        activations, row_sizes = place(state.activations, data, blocks), place(state.row_sizes, data, blocks)
        parts = np.ascontiguousarray(state.dictionary.T)
        for _ in range(_SWEEPS):
            fixed = parts, state.feature_sizes, activation_floor(self.n_components)
            (gain, exposure), (activations,) = self.engine.map_rows(
                _sweep, data, blocks, *fixed, reads=[row_sizes], changes=[activations]
            )
            moved = np.divide(parts * gain, exposure, out=np.zeros_like(parts), where=exposure > 0)
            parts = np.maximum(moved, floors)
        shared = parts, state.feature_sizes
        if self.dispersion == "sample":
            value, (row_sizes,) = self.engine.map_rows(
                _improve_row_sizes, data, blocks, *shared, reads=[activations], changes=[row_sizes]
            )
        else:
            value, state.feature_sizes = self._feature_sizes(data, blocks, activations, row_sizes, *shared)
        dictionary = np.ascontiguousarray(parts.T)
        return NegativeBinomialState(activations, dictionary, row_sizes, state.feature_sizes), {"objective": value}

    def _feature_sizes(
        self,
        data: SparseData,
        blocks: list[tuple[int, int]],
        activations: Any,
        row_sizes: Any,
        parts: Floats,
        sizes: Floats,
    ) -> tuple[float, Floats]:
        """Improve the sizes of features, or the one that they share; the log-likelihood and the sizes."""
        common = self.dispersion == "common"

        def terms(tried: Floats) -> Terms:
            shared = parts, np.broadcast_to(tried, sizes.shape).copy()
            found, _ = self.engine.map_rows(_feature_terms, data, blocks, *shared, reads=[activations, row_sizes])
            return np.asarray(found.sum(axis=0, keepdims=True) if common else found)

        if not isinstance(self.dispersion, str):
            return float(terms(sizes)[:, 0].sum()), sizes
        value, found = newton_sizes(sizes[:1] if common else sizes, terms)
        return value, np.broadcast_to(found, sizes.shape).copy()


def newton_sizes(sizes: Floats, terms: Callable[[Floats], Terms]) -> tuple[float, Floats]:
    """Newton steps in the logarithm of each size; a step that would lower its log-likelihood is made shorter.

    Parameters
    ----------
    sizes
        Where to start.
    terms
        Log-likelihood, and its two derivatives in the logarithm of the size, of each size.
    """
    now, limit = terms(sizes), np.full(sizes.shape, _LONGEST_STEP)
    for _ in range(_STEPS):
        _, slope, curvature = now.T
        step = np.where(curvature < 0, -slope / np.where(curvature < 0, curvature, -1.0), np.sign(slope) * limit)
        tried = np.clip(sizes * np.exp(np.clip(step, -limit, limit)), SMALLEST_SIZE, LARGEST_SIZE)
        if np.all(np.abs(np.log(tried / sizes)) < _SHORTEST_STEP):
            break
        there = terms(tried)
        better = there[:, 0] >= now[:, 0]
        sizes, now = np.where(better, tried, sizes), np.where(better[:, None], there, now)
        limit = np.where(better, limit, 0.25 * np.minimum(limit, np.abs(step)))
    return float(now[:, 0].sum()), sizes


def _sweep(
    block: Block, row_sizes: Floats, activations: Floats, parts: Floats, feature_sizes: Floats, floor: float
) -> tuple[Floats, Floats]:
    own, sizes = activations[block.rows], (row_sizes[block.rows], feature_sizes)
    cells, floors = (block.own_cells, block.own_missing), floor * block.data.row_sums[block.rows]
    kernels.improve_activations(*cells, parts, sizes, floors, (1, 0.0), own)
    gain, exposure = np.zeros(parts.shape), np.zeros(parts.shape)
    kernels.add_part_sums(*cells, own, parts, sizes, gain, exposure)
    return gain, exposure


def _feature_terms(block: Block, activations: Floats, row_sizes: Floats, parts: Floats, feature_sizes: Floats) -> Terms:
    return _terms(block, activations[block.rows], parts, row_sizes[block.rows], feature_sizes, by_rows=False)


def _improve_row_sizes(
    block: Block, activations: Floats, row_sizes: Floats, parts: Floats, feature_sizes: Floats
) -> float:
    own = activations[block.rows]
    value, row_sizes[block.rows] = newton_sizes(
        row_sizes[block.rows].copy(), lambda sizes: _terms(block, own, parts, sizes, feature_sizes, by_rows=True)
    )
    return value


def _terms(
    block: Block, activations: Floats, parts: Floats, row_sizes: Floats, feature_sizes: Floats, *, by_rows: bool
) -> Terms:
    found = np.zeros((block.n_rows if by_rows else parts.shape[1], 3))
    sizes = row_sizes, feature_sizes
    kernels.add_size_terms(block.own_cells, block.own_missing, activations, parts, sizes, by_rows, found)
    return found


def settled_activations(data: SparseData, parts: Floats, feature_sizes: Floats, engine: Engine) -> Floats:
    """Activations of new samples for given parts, each row on its own, from those of Poisson noise.

    Parameters
    ----------
    data
        Checked samples.
    parts
        Parts x features.
    feature_sizes
        The size of each feature.
    engine
        Where blocks of rows are processed.
    """
    start = solve_activations(data, parts.T, engine)
    shared = np.ascontiguousarray(parts), feature_sizes
    _, (found,) = engine.map_rows(
        _settle, data, dense_blocks(data), *shared, reads=[start], makes=[Made(start.shape[1:])]
    )
    return np.asarray(found)


def _settle(block: Block, start: Floats, out: Floats, parts: Floats, feature_sizes: Floats) -> float:
    own = out[block.rows]
    # A multiplicative update cannot leave 0, where Poisson noise may have put a part that is needed.
    totals = block.data.row_sums[block.rows, None]
    own[...] = np.where(parts.any(axis=1), start[block.rows] + 1e-3 * totals / len(parts), 0.0)
    sizes, floors, effort = (np.ones(block.n_rows), feature_sizes), np.zeros(block.n_rows), (_MOST_UPDATES, _ROW_TOL)
    kernels.improve_activations(block.own_cells, block.own_missing, parts, sizes, floors, effort, own)
    return 0.0
