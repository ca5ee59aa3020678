"""Steps for data whose columns are nowhere together: one pass over rows, which sums features x components by blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.engines.blocks import TARGET_NONZEROS, Block, Made, row_blocks
from partwise.passes.floors import Floors, activation_floor
from partwise.poisson import kernels
from partwise.poisson.inference.passes import em_rates
from partwise.poisson.inference.state import PoissonState
from partwise.priors.flat import FlatPrior

Floats = NDArray[np.float64]
Sums = tuple[Floats, Floats, Floats, float]


@dataclass(frozen=True)
class FeatureSums:
    """What a pass over rows leaves of the dictionary's side.

    Attributes
    ----------
    counts
        Expected allocation totals, features x components.
    exposure
        Sums of the activations over the rows in which a feature is observed; one row for all where nothing is missing.
    activations
        Sums of the activations.
    logs
        Σ x log rate, if it was asked for.
    """

    counts: Floats
    exposure: Floats
    activations: Floats
    logs: float

    @classmethod
    def of(cls, sums: Sums, dictionary: Floats) -> FeatureSums:
        """From the sums over blocks."""
        gain, activations, hidden, logs = sums
        exposure = np.atleast_2d(activations) if hidden.size == 0 else np.maximum(activations - hidden, 0.0)
        return cls(dictionary * gain, exposure, activations, float(logs))


def step(
    data: SparseData, engine: Engine, state: PoissonState, *, max_sweeps: int, with_objective: bool
) -> tuple[PoissonState, float]:
    """Activations by coordinate descent (by EM without sweeps), then an EM step of the dictionary, in one pass.

    Gives the log-likelihood between the two, without the log x! terms.
    """
    blocks = _blocks(data)
    n_components = state.dictionary.shape[1]
    shared = state.dictionary, state.dictionary.sum(axis=0), activation_floor(n_components), max_sweeps, with_objective
    activations = engine.place(state.activations, data, blocks)
    sums, (activations,) = engine.map_rows(_improve, data, blocks, *shared, changes=[activations])
    features = FeatureSums.of(sums, state.dictionary)
    objective = features.logs - float(np.sum(state.dictionary * features.exposure)) if with_objective else np.nan
    floors = Floors.of(data, n_components).dictionary[:, None]
    return PoissonState(activations, FlatPrior(floors).rates(features.counts, features.exposure)), objective


def finish(data: SparseData, engine: Engine, state: PoissonState) -> tuple[Floats, Floats, float]:
    """Dictionary with columns that sum to 1, sums of the activations to it, and the largest violation of optimality."""
    blocks, floors = _blocks(data), Floors.of(data, state.dictionary.shape[1])
    column_sums = state.dictionary.sum(axis=0)
    scale = np.where(column_sums > 0, column_sums, 1.0)
    dictionary = np.maximum(state.dictionary / scale, floors.dictionary[:, None])
    activations = engine.place(state.activations, data, blocks)
    unit = data.total / data.shape[0]
    shared = dictionary, dictionary.sum(axis=0), activation_floor(scale.size), scale, unit
    sums, (worst,) = engine.map_rows(_finish, data, blocks, *shared, reads=[activations], makes=[Made(())])
    features = FeatureSums.of(sums, dictionary)
    totals = np.where(data.column_sums > 0, data.column_sums, data.total / data.shape[1])
    exposure = np.broadcast_to(features.exposure, dictionary.shape)
    gain = np.divide(features.counts, dictionary * exposure, out=np.zeros(exposure.shape), where=dictionary > 0)
    violations = np.abs(np.minimum(dictionary * exposure / totals[:, None], 1.0 - gain))[exposure > 0]
    return dictionary, features.activations, max(float(np.asarray(worst).max()), float(violations.max(initial=0.0)))


def _blocks(data: SparseData) -> list[tuple[int, int]]:
    # Each block sums into an array of its own for all features: blocks so large that this costs little.
    return row_blocks(data.indptr, max(TARGET_NONZEROS, 8 * data.shape[1]))


def _improve(
    block: Block,
    activations: Floats,
    dictionary: Floats,
    totals: Floats,
    floor: float,
    max_sweeps: int,
    with_logs: bool,
) -> Sums:
    own = activations[block.rows]
    if max_sweeps:
        cells, floors = (*block.own_cells, *block.own_missing), floor * block.data.row_sums[block.rows]
        kernels.coordinate_descent(*cells, dictionary, totals, floors, max_sweeps, 0.0, 0, block.n_rows, own)
    else:
        own[...] = em_rates(block, own, dictionary, totals, floor)
    return _sums(block, own, dictionary, with_logs)


def _finish(
    block: Block,
    activations: Floats,
    worst: Floats,
    dictionary: Floats,
    totals: Floats,
    floor: float,
    scale: Floats,
    unit: float,
) -> Sums:
    own = np.maximum(activations[block.rows] * scale, floor * block.data.row_sums[block.rows, None])
    cells = *block.own_cells, *block.own_missing
    worst[block.rows] = kernels.kkt_residual(*cells, own, dictionary, totals, unit, 0, block.n_rows)
    return _sums(block, own, dictionary, False)


def _sums(block: Block, activations: Floats, dictionary: Floats, with_logs: bool) -> Sums:
    gain = np.zeros(dictionary.shape)
    logs = kernels.add_feature_gains(*block.own_cells, activations, dictionary, with_logs, 0, block.n_rows, gain)
    pointers, positions = block.own_missing
    hidden: Any = np.zeros((0, 0))
    if block.data.n_missing:
        hidden = np.zeros(dictionary.shape)
        rows = np.repeat(np.arange(block.n_rows), np.diff(pointers))
        np.add.at(hidden, positions[pointers[0] : pointers[-1]], activations[rows])
    return gain, activations.sum(axis=0), hidden, logs
