"""Where the components of a mixture are: their weights, and moving, merging and adding them."""

from __future__ import annotations

import numpy as np

from partwise.priors.base import Floats
from partwise.priors.kernels.columns import evidence_columns, likelihood_from_logs
from partwise.priors.kernels.directional import mixture_derivatives
from partwise.priors.kernels.weights import best_weights
from partwise.priors.mixture import GammaMixture
from partwise.priors.observations import Observations

# Entries of a Gram matrix times rows, from which rows are put in the order of their rates.
_LARGE = 1e8
_MOST_STEPS = 30
_LEAST_DAMPING = 1e-8
# What rounding hides of a mean log evidence.
_HIDDEN = 1e-15


def likelihoods(data: Observations, prior: GammaMixture) -> tuple[Floats, Floats]:
    """p(x_i | component j) divided by the largest of its row, in Fortran order, and the logarithm of that."""
    columns, largest = np.empty((data.counts.size, prior.means.size), order="F"), np.empty(data.counts.size)
    evidence_columns(data.counts, data.exposure, prior.shapes, prior.means, columns)
    likelihood_from_logs(columns, largest)
    return columns, largest


def log_mixture(data: Observations, prior: GammaMixture) -> Floats:
    """Log evidence of each count, relative to its best rate."""
    columns, largest = likelihoods(data, prior)
    return np.asarray(np.log(columns @ prior.weights) + largest)


def evidence(data: Observations, prior: GammaMixture) -> float:
    """Log evidence in all, relative to the best rate of each count."""
    return float(np.sum(data.repeats * log_mixture(data, prior)))


def weighted(data: Observations, prior: GammaMixture, tol: float) -> GammaMixture:
    """The components of a mixture with the best weights, to a gap of ``tol`` per observation; from its weights on."""
    if data.counts.size * prior.weights.size**2 > _LARGE:
        data = data.by_rate()
    share = np.broadcast_to(data.repeats / data.number, data.counts.shape).copy()
    weights = prior.weights.copy()
    best_weights(likelihoods(data, prior)[0], share, tol, weights, np.empty(3))
    return GammaMixture(weights, prior.shapes, prior.means)


def extended(prior: GammaMixture, shapes: Floats, means: Floats) -> GammaMixture:
    """The mixture with further components of weight 0, in the order of shapes and then of means."""
    all_shapes, all_means = np.append(prior.shapes, shapes), np.append(prior.means, means)
    order = np.lexsort((all_means, all_shapes))
    return GammaMixture(np.append(prior.weights, np.zeros(means.size))[order], all_shapes[order], all_means[order])


def merged(data: Observations, prior: GammaMixture, close: float) -> GammaMixture:
    """Neighbours of one shape at most ``close`` standard deviations of a log rate apart as one, of the same mean."""
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.diff(np.log(prior.means))
        columns = likelihoods(data, prior)[0]
        share = data.repeats / (columns @ prior.weights)
        expected = prior.means * ((share * data.exposure) @ columns) / (share @ columns)
        near = steps * np.sqrt(np.maximum(1.0, 1.0 / (1.0 / expected + 1.0 / prior.shapes)))[1:] < close
    apart = ~near | (prior.shapes[1:] != prior.shapes[:-1])
    first = np.flatnonzero(np.append(True, apart))
    weights = np.add.reduceat(prior.weights, first)
    return GammaMixture(weights, prior.shapes[first], np.add.reduceat(prior.weights * prior.means, first) / weights)


def polished(data: Observations, prior: GammaMixture, tol: float) -> GammaMixture:
    """The mixture moved uphill, weights and means together, by damped Newton steps.

    They end when no component has more to gain than ``tol`` for each observation that it explains.
    """
    k = prior.weights.size
    damping, trial, value = _LEAST_DAMPING, prior, -np.inf
    for _ in range(_MOST_STEPS):
        new_value, slope, hessian, scale = _derivatives(data, trial)
        if new_value > value - _HIDDEN * (1.0 + abs(new_value)):
            value, prior = new_value, trial
            damping = max(0.1 * damping, _LEAST_DAMPING)
            # Where the evidence is not concave, the step goes uphill all the same: the size of a curvature counts.
            curvature, axes = np.linalg.eigh(hessian / (scale[:, None] * scale))
            gradient, along = slope, axes.T @ (slope / scale)
        else:
            damping *= 10.0
        move = axes @ (along / (np.abs(curvature) + damping)) / scale
        # Of a component of small weight little is gained in all, but its slope may be large.
        if np.max(np.abs(gradient * move).reshape(2, k).sum(axis=0) / prior.weights) < tol:
            break
        move /= max(1.0, float(np.abs(move).max()))
        trial = GammaMixture(prior.weights * np.exp(move[:k]), prior.shapes, prior.means * np.exp(move[k:]))
    return prior


def _derivatives(data: Observations, prior: GammaMixture) -> tuple[float, Floats, Floats, Floats]:
    """Mean log evidence, its slope in log weights and log means, its negative Hessian, and the scales of these."""
    k = prior.weights.size
    parts = data.exposure, data.repeats / data.number
    s, share = (np.ascontiguousarray(np.broadcast_to(part, data.counts.shape)) for part in parts)
    columns, largest = likelihoods(data, prior)
    mixed = columns @ prior.weights
    value = float(share @ (np.log(mixed) + largest))
    columns *= prior.weights
    columns /= mixed[:, None]
    sums, gauss = np.empty((3, k)), np.empty((2 * k, 2 * k))
    mixture_derivatives(data.counts, s, share, columns, prior.shapes, prior.means, sums, gauss)
    sums[0] -= prior.weights
    blocks = np.block([[np.diag(sums[0]), np.diag(sums[1])], [np.diag(sums[1]), np.diag(sums[2])]])
    return value, sums[:2].ravel(), gauss - blocks, np.sqrt(np.diag(gauss) + 1e-12)
