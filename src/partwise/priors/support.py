"""Weights of the components of a mixture, of whatever shapes, and further components."""

from __future__ import annotations

import numpy as np

from partwise.priors.base import Floats
from partwise.priors.kernels.columns import evidence_columns, likelihood_from_logs
from partwise.priors.kernels.weights import best_weights
from partwise.priors.mixture import GammaMixture
from partwise.priors.observations import Observations

# Entries of a Gram matrix times rows, from which rows are put in the order of their rates.
_LARGE = 1e8


def likelihoods(data: Observations, prior: GammaMixture) -> Floats:
    """p(x_i | component j) divided by the largest of its row, in Fortran order."""
    columns = np.empty((data.counts.size, prior.means.size), order="F")
    evidence_columns(data.counts, data.exposure, prior.shapes, prior.means, columns)
    likelihood_from_logs(columns, np.empty(data.counts.size))
    return columns


def weighted(data: Observations, prior: GammaMixture, tol: float) -> GammaMixture:
    """The components of a mixture with the best weights, to a gap of ``tol`` per observation; from its weights on."""
    if data.counts.size * prior.weights.size**2 > _LARGE:
        data = data.by_rate()
    weights = prior.weights.copy()
    best_weights(likelihoods(data, prior), data.shares, tol, weights, np.empty(3))
    return GammaMixture(weights, prior.shapes, prior.means)


def extended(prior: GammaMixture, shapes: Floats, means: Floats) -> GammaMixture:
    """The mixture with further components of weight 0, in the order of shapes and then of means."""
    all_shapes, all_means = np.append(prior.shapes, shapes), np.append(prior.means, means)
    order = np.lexsort((all_means, all_shapes))
    return GammaMixture(np.append(prior.weights, np.zeros(means.size))[order], all_shapes[order], all_means[order])
