"""Activations given the dictionary: posterior means, exact where that is cheap, and posterior draws."""

import numpy as np

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made, row_blocks
from partwise.engines.local import LocalEngine
from partwise.gamma_poisson.inference.sweeps import GibbsSweeps
from partwise.gamma_poisson.kernels.posterior import posterior_mean_rows, variational_mean_rows
from partwise.kernels.arrays import Floats, Triple
from partwise.likelihood.exact import LATTICE, SUBCOUNT, exact_cost
from partwise.likelihood.moments import posterior_moments
from partwise.passes.side import Side

# Discarded sweeps, and kept sweeps if a number of draws is requested.
BURN_IN, N_DRAWS = 50, 200
# Relative standard error at which a mean has enough draws: 19 of 20 means are then within one per cent.
_ENOUGH = 0.004
# Most visits of a row's nonzeros, times parts: about ten milliseconds. Then the fewest and most draws.
_MOST_VISITS, _LEAST_DRAWS, _MOST_DRAWS = 4e6, 400, 100_000
# Multiply-adds for exact moments of a row: a tenth of a millisecond. Longer rows leave the range of floats.
_CHEAP, _SHORT = 2e5, 500


def inverse_rates(data: SparseData, dictionary: Floats, rate: Floats, engine: Engine) -> Floats:
    """1 / (rate_k + Σ over observed f of w_fk): a single row if nothing is missing."""
    return np.asarray(1.0 / (rate + Side(data, engine).exposure(dictionary)))


def explained(data: SparseData, dictionary: Floats) -> SparseData:
    """The counts of features that some part holds; the others say nothing about activations."""
    return data.only(np.any(dictionary > 0, axis=1)[data.indices])


def posterior_mean(
    data: SparseData, dictionary: Floats, shape: Floats, rate: Floats, engine: Engine, *, variational: bool = False
) -> Floats:
    """E[h_nk | x_n]: exact where that is cheap, otherwise from draws until the error is one per cent.

    Parameters
    ----------
    data, dictionary, shape, rate, engine
        Rows, and the model.
    variational
        Use means of variational posteriors instead of draws. For data that are not counts, only these are available.
    """
    counts = data.is_integer
    shared = np.ascontiguousarray(dictionary), shape, rate, variational or not counts, counts
    blocks = row_blocks(data.indptr, 2**12)
    _, (means,) = engine.map_rows(_posterior_means, data, blocks, *shared, makes=[Made(shape.shape)])
    return np.asarray(means)


def _posterior_means(
    block: Block, out: Floats, dictionary: Floats, shape: Floats, rate: Floats, variational: bool, counts: bool
) -> None:
    rows, own = explained(block.data.rows(block.start, block.stop), dictionary), out[block.rows]
    inverse = inverse_rates(rows, dictionary, rate, LocalEngine())
    cells = (rows.indptr, rows.indices, rows.values), (dictionary, inverse, shape)
    if variational:
        variational_mean_rows(*cells, 1e-8, 1000, own)
    cheap = (rows.row_sums <= _SHORT) & counts
    if cheap.any():
        cheap &= exact_cost(rows, dictionary, shape, rate).costs[:, [LATTICE, SUBCOUNT]].min(axis=1) <= _CHEAP
    if cheap.any():
        own[cheap] = posterior_moments(rows.take(np.flatnonzero(cheap)), dictionary, shape, rate).activations
    if not variational:
        visits = np.maximum(np.diff(rows.indptr) * shape.size, 1)
        draws = np.where(cheap, 0, np.clip(_MOST_VISITS / visits, _LEAST_DRAWS, _MOST_DRAWS)).astype(np.int64)
        posterior_mean_rows(*cells, BURN_IN, draws, _ENOUGH, Key(0).for_stage("posterior mean").words, own)


def posterior_draws(
    key: Key, data: SparseData, model: Triple, engine: Engine, *, n_draws: int, burn_in: int = BURN_IN
) -> Floats:
    """Draws x samples x parts from successive sweeps of a Gibbs chain, for a dictionary, shapes and rates."""
    dictionary, shape, rate = np.ascontiguousarray(model[0]), *model[1:]
    data = explained(data, dictionary)
    sweeps = GibbsSweeps(data, engine)
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
