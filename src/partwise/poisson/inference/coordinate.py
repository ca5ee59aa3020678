"""Coordinate descent with extrapolation: the fast algorithm for Poisson factorization."""

from dataclasses import dataclass

import numpy as np

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.core.run import Info
from partwise.core.weights import Weights
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made
from partwise.kernels.arrays import Floats
from partwise.passes.side import FLOOR, Floors, Totals, own_exposure, own_totals
from partwise.poisson import kernels
from partwise.poisson.inference.multiplicative import Multiplicative
from partwise.poisson.inference.passes import PoissonSide, step_by_rows
from partwise.poisson.inference.state import PoissonAlgorithm, PoissonState, start_factors

_SWEEPS = 2
# Processing a few rows at a time avoids further arrays of the size of a factor.
_ROWS_AT_ONCE = 1024
_EM_STEPS = 10
# Nonzeros of rows on disk that a start may load into memory, by rows and by columns: about 300 MB.
_MOST_IN_MEMORY = 2**24
_FIRST_STRIDE, _STRIDE_GROWTH, _LIMIT_GROWTH, _SHORTEST_LIMIT = 0.5, 1.1, 1.05, 0.1


@dataclass
class ExtrapolatedState(PoissonState):
    """Both factors, the extrapolated dictionary from which the next step starts, and how far to extrapolate."""

    dictionary_ahead: Floats
    objective: float = -np.inf
    stride: float = _FIRST_STRIDE
    stride_limit: float = 1.0
    rejections: int = 0


@dataclass
class CoordinateDescent(PoissonAlgorithm):
    """Newton steps on single coordinates (Hsieh & Dhillon 2011) from points extrapolated as in Ang & Gillis (2019).

    A step that would lower the log-likelihood is rejected, and the next one extrapolates less. After two rejections in
    a row one EM step is taken, which cannot lower it. The first steps are EM, too: they are cheap, and large coordinate
    descent steps from a random start lead to worse optima. Data on disk are read by rows; there the dictionary moves by
    EM, once per pass.
    """

    def init(self, key: Key, data: SparseData) -> ExtrapolatedState:
        """The initial factors, without momentum."""
        first = start_factors(key, data, self.n_components, self.init_factors)
        return ExtrapolatedState(first.activations, first.dictionary, first.dictionary.copy())

    def step(self, key: Key, data: SparseData, state: ExtrapolatedState) -> tuple[ExtrapolatedState, Info]:
        """Improve the activations, then the dictionary; report the log-likelihood (without log x! terms)."""
        if data.by_rows:
            moved, objective = step_by_rows(data, self.engine, state, max_sweeps=_SWEEPS, with_objective=True)
            fresh = ExtrapolatedState(moved.activations, moved.dictionary, moved.dictionary.copy(), objective)
            return fresh, {"objective": objective}
        if state.rejections > 2 or key.iteration <= _EM_STEPS:
            return self._em_step(key, data, state)
        samples, features = PoissonSide(data, self.engine), PoissonSide(data.transposed, self.engine)
        floors = Floors.of(data, self.n_components)
        stride = 0.0 if state.rejections == 2 else state.stride
        old, ahead = samples.place(state.activations), state.dictionary_ahead
        shared = ahead, samples.column_totals(ahead), FLOOR / self.n_components, stride, data.weights
        totals, (activations,) = samples.map_rows(_improve, *shared, reads=[old], makes=[Made(old.shape[1:])])
        dictionary, objective = features.coordinate_descent(
            state.dictionary_ahead.copy(), activations, totals=totals, floors=floors.dictionary, max_sweeps=_SWEEPS
        )
        if not objective >= state.objective:
            state.rejections += 1
            state.stride = 0.5 * state.stride
            state.stride_limit = max(_SHORTEST_LIMIT, 1.5 * state.stride)
            state.dictionary_ahead[...] = state.dictionary
            # Nothing changed, so report nothing: an unchanged objective would look like convergence.
            return state, {}
        ahead[...] = dictionary
        _extrapolate(state.dictionary, ahead, stride, floors.dictionary)
        limit = min(1.0, _LIMIT_GROWTH * state.stride_limit)
        longer = min(limit, _STRIDE_GROWTH * max(state.stride, _SHORTEST_LIMIT))
        return ExtrapolatedState(activations, dictionary, ahead, objective, longer, limit), {"objective": objective}

    def _em_step(self, key: Key, data: SparseData, state: ExtrapolatedState) -> tuple[ExtrapolatedState, Info]:
        em = Multiplicative(self.n_components, self.init_factors, self.engine)
        moved, _ = em.step(key.at(1), data, PoissonState(state.activations, state.dictionary))
        fresh = ExtrapolatedState(moved.activations, moved.dictionary, moved.dictionary.copy())
        if key.iteration < _EM_STEPS:
            return fresh, {}
        samples, features = PoissonSide(data, self.engine), PoissonSide(data.transposed, self.engine)
        floors, totals = Floors.of(data, self.n_components).dictionary, samples.totals(fresh.activations)
        _, fresh.objective = features.coordinate_descent(
            fresh.dictionary, fresh.activations, totals=totals, floors=floors, max_sweeps=0
        )
        return fresh, {"objective": fresh.objective}

    def rebase(self, state: ExtrapolatedState, change: float) -> None:
        """Steps are judged by the log-likelihood under the latest batch factors."""
        state.objective += change


def with_columns(data: SparseData, engine: Engine) -> tuple[SparseData, Engine]:
    """Data to start a fit from. Rows on disk are loaded into memory, unless there are too many, for the same start."""
    if data.by_rows and data.nnz <= _MOST_IN_MEMORY:
        return data.rows(0, data.shape[0]), engine.here
    return data, engine


def _improve(
    block: Block, old: Floats, new: Floats, other: Floats, totals: Totals, floor: float, stride: float, weights: Weights
) -> Floats:
    floors, moved = floor * block.data.row_sums[block.rows], new[block.rows]
    moved[...] = old[block.rows]
    held = other, own_exposure(block, other, totals), floors
    kernels.coordinate_descent(block.own_cells, held, (_SWEEPS, 0.0), 0, block.n_rows, moved)
    _extrapolate(old[block.rows], moved, stride, floors)
    return own_totals(block, moved, weights)


def _extrapolate(old: Floats, new: Floats, stride: float, floors: Floats) -> None:
    """``new += stride * (new - old)`` in place, but keep at least a tenth of each entry, and the floor of its row."""
    for start in range(0, new.shape[0], _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        least = np.maximum(0.1 * new[rows], floors[rows, None])
        new[rows] += stride * (new[rows] - old[rows])
        np.maximum(new[rows], least, out=new[rows])
