"""Activations of new samples for a given dictionary."""

from typing import Literal

import numpy as np

from partwise.binary.inference.cells import Cells
from partwise.binary.inference.posterior import beta_moments, dirichlet_moments, shares_or
from partwise.binary.kernels.activations import GivenColumns, fit_rows, sample_rows
from partwise.binary.model import BinaryModel
from partwise.core.data import BinaryMatrix
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made, row_blocks
from partwise.kernels.arrays import Floats

Way = Literal["sample", "variational", "mode"]
# Arguments of the row kernels: weights of zeros and of ones (bit x columns x parts), whether the rows have a
# Dirichlet factor, and the parameters of its prior.

BURN_IN, N_DRAWS = 30, 120
_MAX_ITER, _TOL = 1000, 1e-8
_CELLS_OF_A_BLOCK = 2**12


def activations_of(data: BinaryMatrix, model: BinaryModel, dictionary: Floats, way: Way, engine: Engine) -> Floats:
    """Activations of each sample on its own: a row gives the same result in any batch.

    Parameters
    ----------
    way
        ``"sample"``: posterior means by Gibbs sampling. ``"variational"``: means of a mean-field posterior. ``"mode"``:
        the mode of log odds, or of logarithms; with prior parameters of 0 it is maximum likelihood.
    """
    cells, (alpha, beta), is_dirichlet = Cells.of(data), activation_prior(model), model.kind != "beta-dir"
    zeros = 1.0 - dictionary if is_dirichlet else dictionary
    given = np.stack((zeros, dictionary)), is_dirichlet, alpha, beta
    if way == "sample":
        blocks = row_blocks(cells.row_starts, _CELLS_OF_A_BLOCK)
        _, (out,) = engine.map_rows(_sample, cells, blocks, given, makes=[Made((model.n_components,))])
        return np.asarray(out)
    counts = row_counts_of(cells, given, engine, by_mean_logs=way == "variational")
    if way == "mode" and is_dirichlet:
        part = alpha + counts.sum(axis=2)
        return shares_or(part, part.sum(axis=1, keepdims=True), np.full(part.shape, 1.0 / part.shape[1]))
    if way == "mode":
        part = alpha + counts[..., 1]
        return shares_or(part, alpha + beta + counts.sum(axis=2), np.full(part.shape, 0.5))
    return (dirichlet_moments(counts.sum(axis=2), alpha) if is_dirichlet else beta_moments(counts, alpha, beta)).mean


def row_counts_of(
    cells: Cells,
    given: GivenColumns,
    engine: Engine,
    *,
    by_mean_logs: bool,
    max_iter: int = _MAX_ITER,
    tol: float = _TOL,
) -> Floats:
    """Expected counts (rows x parts x bit) at the fixed point of each row."""
    blocks, made = row_blocks(cells.row_starts, _CELLS_OF_A_BLOCK), [Made((given[0].shape[2], 2))]
    _, (counts,) = engine.map_rows(_fit, cells, blocks, given, by_mean_logs, max_iter, tol, makes=made)
    return np.asarray(counts)


def _sample(block: Block, out: Floats, given: GivenColumns) -> None:
    cells, words = (block.data.row_starts, block.data.codes), Key(0).for_stage("activations").words
    sample_rows(cells, given, (BURN_IN, N_DRAWS), words, block.start, block.stop, out)


def _fit(block: Block, counts: Floats, given: GivenColumns, by_mean_logs: bool, max_iter: int, tol: float) -> None:
    cells, rule = (block.data.row_starts, block.data.codes), (by_mean_logs, max_iter, tol)
    fit_rows(cells, given, rule, block.start, block.stop, counts)


def activation_prior(model: BinaryModel) -> tuple[Floats, Floats]:
    """Parameters of the activations' prior; for a Dirichlet prior, the concentration comes first."""
    priors = model.priors
    if model.kind == "beta-dir":
        return priors.alpha, priors.beta
    own = priors.concentration if model.kind == "dir-beta" else priors.activation_concentration
    return own, np.zeros_like(own)
