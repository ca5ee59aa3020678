"""Activations given the dictionary: posterior means and draws by Gibbs sampling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made, row_blocks
from partwise.engines.local import LocalEngine
from partwise.gamma_poisson.inference.sweeps import Sweeps
from partwise.gamma_poisson.kernels.posterior import posterior_mean_rows, variational_mean_rows
from partwise.passes.side import Side

Floats = NDArray[np.float64]

BURN_IN, N_DRAWS = 50, 200


def inverse_rates(data: SparseData, dictionary: Floats, rate: Floats, engine: Engine) -> Floats:
    """1 / (rate_k + Σ over observed f of w_fk): one row for all where nothing is missing."""
    return np.asarray(1.0 / (rate + Side(data, engine).exposure(dictionary)))


def explained(data: SparseData, dictionary: Floats) -> SparseData:
    """The counts of features that some component holds; the others say nothing about activations."""
    return data.only(np.any(dictionary > 0, axis=1)[data.indices])


def posterior_mean(
    data: SparseData,
    dictionary: Floats,
    shape: Floats,
    rate: Floats,
    engine: Engine,
    *,
    burn_in: int = BURN_IN,
    n_draws: int = N_DRAWS,
) -> Floats:
    """E[h_nk | x_n], Rao-Blackwellised over the allocations; the same stream for every row."""
    shared = np.ascontiguousarray(dictionary), shape, rate, burn_in, n_draws
    blocks = row_blocks(data.indptr, 2**12)
    _, (means,) = engine.map_rows(_posterior_means, data, blocks, *shared, makes=[Made(shape.shape)])
    return np.asarray(means)


def _posterior_means(
    block: Block, out: Floats, dictionary: Floats, shape: Floats, rate: Floats, burn_in: int, n_draws: int
) -> float:
    rows = explained(block.data.rows(block.start, block.stop), dictionary)
    seed, stage_chain, _ = Key(0).for_stage("posterior mean").words
    inverse = inverse_rates(rows, dictionary, rate, LocalEngine())
    cells = rows.indptr, rows.indices, rows.values
    span = 0, block.n_rows
    posterior_mean_rows(*cells, dictionary, inverse, shape, burn_in, n_draws, seed, stage_chain, *span, out[block.rows])
    return 0.0


def variational_mean(data: SparseData, dictionary: Floats, shape: Floats, rate: Floats, engine: Engine) -> Floats:
    """E[h_nk] of each row's variational posterior, for nonnegative data that are no counts."""
    blocks = row_blocks(data.indptr, 2**12)
    shared = np.ascontiguousarray(dictionary), shape, rate
    _, (means,) = engine.map_rows(_variational_means, data, blocks, *shared, makes=[Made(shape.shape)])
    return np.asarray(means)


def _variational_means(block: Block, out: Floats, dictionary: Floats, shape: Floats, rate: Floats) -> float:
    rows = explained(block.data.rows(block.start, block.stop), dictionary)
    inverse = inverse_rates(rows, dictionary, rate, LocalEngine())
    cells = rows.indptr, rows.indices, rows.values
    variational_mean_rows(*cells, dictionary, inverse, shape, 1e-8, 1000, 0, block.n_rows, out[block.rows])
    return 0.0


def posterior_draws(
    key: Key,
    data: SparseData,
    dictionary: Floats,
    shape: Floats,
    rate: Floats,
    engine: Engine,
    *,
    n_draws: int,
    burn_in: int = BURN_IN,
) -> Floats:
    """Draws x samples x components from successive sweeps of a Gibbs chain."""
    dictionary = np.ascontiguousarray(dictionary)
    data = explained(data, dictionary)
    sweeps = Sweeps(data, engine)
    inverse = inverse_rates(data, dictionary, rate, engine)
    counts = np.repeat(data.row_sums[:, None] / shape.size, shape.size, axis=1)
    out = np.empty((n_draws, data.shape[0], shape.size))
    for s in range(-burn_in, n_draws):
        at = key.at(burn_in + s)
        activations = sweeps.activations(at, counts, shape, inverse)
        counts, _ = sweeps.allocations(at, activations, dictionary)
        if s >= 0:
            out[s] = activations
    return out
