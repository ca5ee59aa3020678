"""Majorisation for negative-binomial factorization: sweeps over both factors, and Newton steps for the sizes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

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
from partwise.passes.side import FLOOR, Floors
from partwise.poisson import kernels as poisson_kernels
from partwise.poisson.inference.coordinate import CoordinateDescent, with_columns
from partwise.poisson.inference.passes import solve_activations

SMALLEST_SIZE, LARGEST_SIZE = 1e-3, 1e9
"""Bounds of estimated sizes. From the upper bound on, the noise is Poisson in double precision."""

# Number of cells, zeros included, in a block of rows, and in the pieces passed to BLAS, which stay in the cache.
_CELLS_AT_ONCE, _CELLS_IN_CACHE, _FEWEST_ROWS = 2**21, 2**19, 16
_SWEEPS, _ROW_SWEEPS, _PART_UPDATES = 5, 2, 3
_FIRST_STRIDE, _STRIDE_GROWTH = 0.5, 1.2
# Sizes in this range have weights in single precision. Outside it, they would overflow or underflow.
_SMALLEST_SINGLE, _LARGEST_SINGLE = 1e-20, 1e20
_FIRST_SIZE, _START_ITERATIONS, _START_TOL = 10.0, 200, 1e-4
_LONGEST_STEP, _SHORTEST_STEP, _STEPS = 2.0, 1e-3, 3
_MOST_UPDATES, _ROW_TOL = 300, 1e-6

Terms = NDArray[np.float64]


@dataclass
class NegativeBinomialState:
    """Activations and sizes of rows (both may be on workers), dictionary (features x parts), and sizes of features.

    ``stride`` is how far sweeps extrapolate; ``single`` says whether they compute weights in single precision.
    """

    activations: Any
    dictionary: Floats
    row_sizes: Any
    feature_sizes: Floats
    objective: float = -np.inf
    stride: float = _FIRST_STRIDE
    single: bool = True


def dense_blocks(data: SparseData) -> list[tuple[int, int]]:
    """Ranges of rows with about equal numbers of cells: the cost depends on all cells, not on nonzeros."""
    return row_blocks(data.indptr, max(1, data.nnz), max(_FEWEST_ROWS, _CELLS_AT_ONCE // data.shape[1]))


@dataclass
class Majorisation:
    """Sweeps over both factors, five per Newton update of the sizes. None of them lowers the likelihood.

    Sweeps start from points extrapolated as in Ang & Gillis (2019). If five sweeps would lower the log-likelihood, they
    are repeated without extrapolation. If that lowers it, too, rounding is the cause: all further sweeps are in double
    precision.

    Attributes
    ----------
    n_components
        Number of parts.
    dispersion
        Whose sizes are estimated: ``"common"``, ``"feature"``, ``"sample"``; or the size of all counts.
    engine
        Where blocks of rows are processed.
    """

    REVISION: ClassVar[int] = 2
    n_components: int
    dispersion: str | float
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: SparseData) -> NegativeBinomialState:
        """The maximum-likelihood factors under Poisson noise."""
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
        single = _SMALLEST_SINGLE < size < _LARGEST_SINGLE
        return NegativeBinomialState(np.asarray(found.activations), found.dictionary, *sizes, single=single)

    def step(
        self, key: Key, data: SparseData, state: NegativeBinomialState
    ) -> tuple[NegativeBinomialState, Mapping[str, float]]:
        """Improve factors, then sizes; report the log-likelihood that they reach."""
        moved = self._moved(data, state, state.stride)
        if not moved.objective >= state.objective:
            moved = self._moved(data, state, 0.0)
            if state.single and not moved.objective >= state.objective:
                state.single = False
                moved = self._moved(data, state, 0.0)
            moved.stride = 0.5 * state.stride
        return moved, {"objective": moved.objective}

    def _moved(self, data: SparseData, state: NegativeBinomialState, stride: float) -> NegativeBinomialState:
        """The state after some sweeps and an update of the sizes."""
        blocks, floors = dense_blocks(data), Floors.of(data, self.n_components).dictionary
        activations, row_sizes = (
            self.engine.place(array, data, blocks) for array in (state.activations, state.row_sizes)
        )
        parts = np.ascontiguousarray(state.dictionary.T)
        ahead, parts_ahead, made = activations, parts, Made((self.n_components,))
        for sweep in range(_SWEEPS):
            step = stride if sweep < _SWEEPS - 1 else 0.0
            shared = parts_ahead, state.feature_sizes, FLOOR / self.n_components, step, state.single
            (gain, exposure), (activations, ahead) = self.engine.map_rows(
                _sweep, data, blocks, *shared, reads=[row_sizes, ahead, activations], makes=[made, made]
            )
            moved = parts_ahead
            for update in range(_PART_UPDATES):
                if update:
                    gain, _ = self.engine.map_rows(_gain, data, blocks, moved, reads=[ahead])
                moved = np.divide(moved * gain.T, exposure, out=np.zeros_like(parts), where=exposure > 0)
                np.maximum(moved, floors, out=moved)
            parts, parts_ahead = moved, _extrapolated(parts, moved, step, floors)
        sizes = state.feature_sizes
        if self.dispersion == "sample":
            value, (row_sizes,) = self.engine.map_rows(
                _improve_row_sizes, data, blocks, parts, reads=[activations, row_sizes], makes=[Made(())]
            )
        else:
            value, sizes = self._feature_sizes(data, blocks, activations, parts, sizes)
        dictionary, longer = np.ascontiguousarray(parts.T), min(1.0, _STRIDE_GROWTH * state.stride)
        return NegativeBinomialState(activations, dictionary, row_sizes, sizes, value, longer, state.single)

    def _feature_sizes(
        self, data: SparseData, blocks: list[tuple[int, int]], activations: Any, parts: Floats, sizes: Floats
    ) -> tuple[float, Floats]:
        """Improve the sizes of features, or their common size; return the log-likelihood and the sizes."""
        common = self.dispersion == "common"

        def terms(tried: Floats) -> Terms:
            shared = parts, np.broadcast_to(tried, sizes.shape).copy()
            found, _ = self.engine.map_rows(_terms, data, blocks, *shared, reads=[activations])
            return np.asarray(found.sum(axis=0, keepdims=True) if common else found)

        if not isinstance(self.dispersion, str):
            return float(terms(sizes)[:, 0].sum()), sizes
        value, found = newton_sizes(sizes[:1] if common else sizes, terms)
        return value, np.broadcast_to(found, sizes.shape).copy()


def newton_sizes(sizes: Floats, terms: Callable[[Floats], Terms]) -> tuple[float, Floats]:
    """Newton steps in the logarithm of each size. A step that would lower its log-likelihood is shortened.

    Parameters
    ----------
    sizes
        Initial sizes.
    terms
        For each size, the log-likelihood and its two derivatives in the logarithm of the size.
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


def _extrapolated(old: Floats, new: Floats, stride: float, floors: Floats) -> Floats:
    """``new + stride * (new - old)``, but at least a tenth of each entry, and the floor."""
    return np.maximum(new + stride * (new - old), np.maximum(0.1 * new, floors)) if stride else new


def _tiles(block: Block, n_features: int, kind: Any) -> Iterator[tuple[Block, Any]]:
    """A block in pieces of a few rows, each with memory for its cells."""
    step = min(block.n_rows, max(_FEWEST_ROWS, _CELLS_IN_CACHE // n_features))
    memory = np.empty((step, n_features), dtype=kind)
    for start in range(block.start, block.stop, step):
        tile = replace(block, start=start, stop=min(start + step, block.stop))
        yield tile, memory[: tile.n_rows]


def _sweep(
    block: Block,
    row_sizes: Floats,
    ahead: Floats,
    old: Floats,
    new: Floats,
    new_ahead: Floats,
    parts: Floats,
    feature_sizes: Floats,
    floor: float,
    stride: float,
    single: bool,
) -> tuple[Floats, Floats]:
    """Update activations, and compute the sums for the update of the parts: gain (features x parts) and exposure.

    Given the expected noise of each cell, counts are Poisson, and the exposure of a part is a weighted sum.
    """
    kind: Any = np.float32 if single else np.float64
    dictionary, exposure, own_parts = np.ascontiguousarray(parts.T), np.zeros_like(parts), parts.astype(kind)
    for tile, rates in _tiles(block, parts.shape[1], kind):
        rows, cells, floors = tile.rows, tile.own_cells, floor * tile.data.row_sums[tile.rows]
        arguments: Any = cells, tile.own_missing, (row_sizes[rows].astype(kind), feature_sizes.astype(kind)), rates
        own = new[rows]
        own[...] = ahead[rows]
        np.matmul(own.astype(kind), own_parts, out=rates)
        kernels.weigh(*arguments)
        held = dictionary, (rates @ own_parts.T).astype(np.float64), floors
        poisson_kernels.coordinate_descent(cells, held, (_ROW_SWEEPS, 0.0), 0, tile.n_rows, own)
        own = new_ahead[rows]
        own[...] = _extrapolated(old[rows], new[rows], stride, floors[:, None])
        np.matmul(own.astype(kind), own_parts, out=rates)
        kernels.weigh(*arguments)
        exposure += own.T.astype(kind) @ rates
    return _gain(block, new_ahead, parts), exposure


def _gain(block: Block, activations: Floats, parts: Floats) -> Floats:
    """The gain of each part and feature from the counts, features x parts."""
    dictionary = np.ascontiguousarray(parts.T)
    found = np.zeros_like(dictionary)
    out, span = (np.zeros((0, len(parts))), found), (0, block.n_rows)
    poisson_kernels.pass_by_tiles(
        block.own_cells, activations[block.rows], dictionary, len(dictionary), False, span, out
    )
    return found


def _improve_row_sizes(block: Block, activations: Floats, old: Floats, new: Floats, parts: Floats) -> float:
    value, new[block.rows] = newton_sizes(
        old[block.rows].copy(), lambda sizes: _terms(block, activations, parts, sizes, by_rows=True)
    )
    return value


def _terms(block: Block, activations: Floats, parts: Floats, sizes: Floats, *, by_rows: bool = False) -> Terms:
    """Log-likelihood of each row or feature, and its two derivatives in the logarithm of its size."""
    n_features = parts.shape[1]
    found = np.zeros((block.n_rows if by_rows else n_features, 3))
    for tile, memory in _tiles(block, n_features, np.float64):
        own, groups = activations[tile.rows], slice(tile.start - block.start, tile.stop - block.start)
        mine, of_groups = (found[groups], sizes[groups]) if by_rows else (found, sizes)
        if by_rows:
            rates = np.matmul(parts.T, own.T, out=memory.reshape(n_features, -1))
        else:
            rates = np.matmul(own, parts, out=memory)
        kernels.add_zero_terms(rates, of_groups, mine)
        kernels.correct_zero_terms(tile.own_cells, tile.own_missing, rates, of_groups, by_rows, mine)
    return found


def settled_activations(data: SparseData, parts: Floats, feature_sizes: Floats, engine: Engine) -> Floats:
    """Activations of new samples for given parts. Rows are independent, and start from Poisson activations.

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


def _settle(block: Block, start: Floats, out: Floats, parts: Floats, feature_sizes: Floats) -> None:
    own = out[block.rows]
    # A multiplicative update cannot leave 0, but the Poisson fit may have set a needed part to 0.
    totals = block.data.row_sums[block.rows, None]
    own[...] = np.where(parts.any(axis=1), start[block.rows] + 1e-3 * totals / len(parts), 0.0)
    sizes, effort = (np.ones(block.n_rows), feature_sizes), (_MOST_UPDATES, _ROW_TOL)
    kernels.improve_activations(block.own_cells, block.own_missing, parts, sizes, effort, own)
