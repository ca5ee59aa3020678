"""Where the components of a mixture are: their weights, and moving, merging and adding them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from partwise.priors.base import Floats
from partwise.priors.kernels.columns import evidence_columns, likelihood_from_logs
from partwise.priors.kernels.weights import best_weights
from partwise.priors.mixture import GammaMixture
from partwise.priors.observations import Observations

# Entries of a Gram matrix times rows, from which rows are put in the order of their rates.
_LARGE = 1e8
_MOST_STEPS = 30
_ROWS = 2048


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


def weighted(data: Observations, prior: GammaMixture, tol: float) -> GammaMixture:
    """The components of a mixture with the best weights, to a gap of ``tol`` per observation; from its weights on."""
    if data.counts.size * prior.weights.size**2 > _LARGE:
        data = data.by_rate()
    share = np.broadcast_to(data.repeats / data.number, data.counts.shape).copy()
    weights = prior.weights.copy()
    best_weights(likelihoods(data, prior)[0], share, tol, weights, np.empty(3))
    return GammaMixture(weights, prior.shapes, prior.means)


def extended(prior: GammaMixture, shapes: Sequence[float], means: Sequence[Floats]) -> GammaMixture:
    """The mixture with further components of weight 0, for each shape some means."""
    all_shapes = np.concatenate((prior.shapes, *(np.full(new.size, a) for a, new in zip(shapes, means, strict=True))))
    all_means = np.concatenate((prior.means, *means))
    order = np.lexsort((all_means, all_shapes))
    weights = np.append(prior.weights, np.zeros(all_means.size - prior.means.size))
    return GammaMixture(weights[order], all_shapes[order], all_means[order])


def merged(data: Observations, prior: GammaMixture, close: float) -> GammaMixture:
    """Neighbours of one shape at most ``close`` standard deviations of a log rate apart as one, of the same mean."""
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.diff(np.log(prior.means))
        columns = likelihoods(data, prior)[0]
        share = data.repeats / (columns @ prior.weights)
        expected = prior.means * ((share * data.exposure) @ columns) / (share @ columns)
        apart = ~(steps * np.sqrt(_information(expected, prior.shapes))[1:] < close) | (np.diff(prior.shapes) != 0)
    first = np.flatnonzero(np.append(True, apart))
    weights = np.add.reduceat(prior.weights, first)
    return GammaMixture(weights, prior.shapes[first], np.add.reduceat(prior.weights * prior.means, first) / weights)


def _information(expected: Floats, shapes: Floats) -> Floats:
    """Of a count on the log mean of its component, at least 1."""
    with np.errstate(divide="ignore"):
        return np.maximum(1.0, 1.0 / (1.0 / expected + 1.0 / shapes))


def polished(data: Observations, prior: GammaMixture, tol: float) -> GammaMixture:
    """The mixture moved uphill, weights and means together, by damped Newton steps to ``tol`` per observation."""
    k = prior.weights.size
    damping, trial, value = 1e-6, prior, -np.inf
    for _ in range(_MOST_STEPS):
        new_value, slope, gauss, blocks = _derivatives(data, trial)
        if new_value > value:
            gain, value, prior, best = new_value - value, new_value, trial, (slope, gauss, blocks)
            damping = max(0.1 * damping, 1e-9)
            if gain < tol:
                break
        else:
            damping *= 10.0
        slope, gauss, blocks = best
        curved = False
        while not curved and damping < 1e6:
            try:
                factor = np.linalg.cholesky(gauss - blocks + damping * np.diag(np.diag(gauss) + 1e-12))
                curved = True
            except np.linalg.LinAlgError:
                damping *= 10.0
        if not curved:
            break
        move = np.clip(np.linalg.solve(factor.T, np.linalg.solve(factor, slope)), -1.0, 1.0)
        trial = GammaMixture(prior.weights * np.exp(move[:k]), prior.shapes, prior.means * np.exp(move[k:]))
    return prior


def _derivatives(data: Observations, prior: GammaMixture) -> tuple[float, Floats, Floats, Floats]:
    """Mean log evidence, its slope in log weights and log means, and the two parts of its negative Hessian."""
    k = prior.weights.size
    share, s = (np.broadcast_to(part, data.counts.shape) for part in (data.repeats / data.number, data.exposure))
    value, sums, gauss = 0.0, np.zeros((3, k)), np.zeros((2 * k, 2 * k))
    columns, largest = likelihoods(data, prior)
    with np.errstate(invalid="ignore"):
        for start in range(0, data.counts.size, _ROWS):
            rows = slice(start, start + _ROWS)
            mixed = columns[rows] @ prior.weights
            value += float(share[rows] @ (np.log(mixed) + largest[rows]))
            x, expected = data.counts[rows, None], s[rows, None] * prior.means
            responsible = columns[rows] * prior.weights / mixed[:, None]
            ratio = 1.0 / (1.0 + expected / prior.shapes)
            score = ratio * (x - expected)
            both = np.hstack((responsible, responsible * score))
            gauss += (both * share[rows, None]).T @ both
            bend = score**2 - ratio**2 * expected * (1.0 + x / prior.shapes)
            sums += share[rows] @ np.stack((responsible, responsible * score, responsible * bend))
    sums[0] -= prior.weights
    blocks = np.block([[np.diag(sums[0]), np.diag(sums[1])], [np.diag(sums[1]), np.diag(sums[2])]])
    return value, sums[:2].ravel(), gauss, blocks
