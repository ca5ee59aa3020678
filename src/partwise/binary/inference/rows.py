"""Activations of new samples, the dictionary being given."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from partwise.binary.inference.cells import Cells
from partwise.binary.inference.posterior import beta_moments, dirichlet_moments
from partwise.binary.kernels.rows import fit_rows, sample_rows
from partwise.binary.model import BinaryModel
from partwise.core.data import BinaryMatrix
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made, row_blocks

Floats = NDArray[np.float64]
Way = Literal["sample", "variational", "mode"]

BURN_IN, N_DRAWS = 30, 120
_MAX_ITER, _TOL = 1000, 1e-8
_CELLS_OF_A_BLOCK = 2**12


def activations_of(data: BinaryMatrix, model: BinaryModel, dictionary: Floats, way: Way, engine: Engine) -> Floats:
    """Activations of each sample on its own: the same row gives the same bits in any batch.

    Parameters
    ----------
    way
        ``"sample"``: posterior means by Gibbs sampling; ``"variational"``: means of a mean-field posterior; ``"mode"``:
        the posterior's mode, which with flat priors is maximum likelihood.
    """
    cells = Cells.of(data)
    weights = bit_weights(model, dictionary)
    alpha, beta = activation_prior(model)
    if way == "mode":
        alpha, beta = alpha - 1.0, max(beta - 1.0, 0.0)
    is_dirichlet = model.kind != "beta-dir"
    blocks = row_blocks(cells.row_starts, _CELLS_OF_A_BLOCK)
    if way == "sample":
        shared = weights, is_dirichlet, alpha, beta
        _, (out,) = engine.map_rows(_sample, cells, blocks, *shared, makes=[Made((model.n_components,))])
        return np.asarray(out)
    counts = row_counts_of(cells, weights, is_dirichlet, (alpha, beta), engine, by_mean_logs=way == "variational")
    if way == "mode":
        return _shares(counts, is_dirichlet, alpha, beta)
    moments = dirichlet_moments(counts.sum(axis=2), alpha) if is_dirichlet else beta_moments(counts, alpha, beta)
    return moments.mean


def row_counts_of(
    cells: Cells,
    weights: Floats,
    is_dirichlet: bool,
    prior: tuple[float, float],
    engine: Engine,
    *,
    by_mean_logs: bool,
    max_iter: int = _MAX_ITER,
    tol: float = _TOL,
) -> Floats:
    """Expected counts (rows x components x bit) at the fixed point of each row."""
    blocks = row_blocks(cells.row_starts, _CELLS_OF_A_BLOCK)
    shared = weights, is_dirichlet, *prior, by_mean_logs, max_iter, tol
    _, (counts,) = engine.map_rows(_fit, cells, blocks, *shared, makes=[Made((weights.shape[2], 2))])
    return np.asarray(counts)


def _sample(block: Block, out: Floats, weights: Floats, is_dirichlet: bool, alpha: float, beta: float) -> float:
    seed, stage_chain, _ = Key(0).for_stage("activations").words
    starts, codes, span = block.data.row_starts, block.data.codes, (block.start, block.stop)
    sample_rows(starts, codes, weights, is_dirichlet, alpha, beta, BURN_IN, N_DRAWS, seed, stage_chain, *span, out)
    return 0.0


def _fit(
    block: Block,
    counts: Floats,
    weights: Floats,
    is_dirichlet: bool,
    alpha: float,
    beta: float,
    by_mean_logs: bool,
    max_iter: int,
    tol: float,
) -> float:
    starts, codes, span = block.data.row_starts, block.data.codes, (block.start, block.stop)
    fit_rows(starts, codes, weights, is_dirichlet, alpha, beta, by_mean_logs, max_iter, tol, *span, counts)
    return 0.0


def bit_weights(model: BinaryModel, dictionary: Floats) -> Floats:
    """Weights of zeros and of ones, for the kernels of rows."""
    zeros = dictionary if model.kind == "beta-dir" else 1.0 - dictionary
    return np.stack((zeros, dictionary))


def activation_prior(model: BinaryModel) -> tuple[float, float]:
    """Parameters of the activations' prior; a Dirichlet has its concentration first."""
    if model.kind == "beta-dir":
        return model.alpha, model.beta
    return (model.concentration if model.kind == "dir-beta" else model.activation_concentration), 0.0


def _shares(counts: Floats, is_dirichlet: bool, alpha: float, beta: float) -> Floats:
    """Shares of the counts; where nothing was observed, even."""
    if is_dirichlet:
        part = alpha + counts.sum(axis=2)
        whole = part.sum(axis=1, keepdims=True)
        even = np.full(part.shape, 1.0 / part.shape[1])
    else:
        part, whole = alpha + counts[..., 1], alpha + beta + counts.sum(axis=2)
        even = np.full(part.shape, 0.5)
    whole = np.broadcast_to(whole, part.shape)
    shares: Floats = np.divide(part, whole, out=even, where=whole > 0)
    return shares
