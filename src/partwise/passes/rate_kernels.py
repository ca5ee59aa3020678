"""The rate of each feature in each part, given the activations, and how well the counts determine it."""

import math

import numpy as np

from partwise.kernels.arrays import Cells, Floats, Pair
from partwise.kernels.jit import kernel

_MOST_ROUNDS = 100
_LONGEST_STEP = 1.5
_SETTLED = 1e-6


@kernel
def feature_rates(
    cells: Cells, activations: Floats, exposures: Floats, pseudocount: float, start: int, stop: int, out: Pair
) -> None:
    """``rates[f] = argmax over p of X[f] @ log(activations @ p) - (exposures[f] + b) @ p + a * log(p).sum()``.

    Rows of X are features, a is the pseudo-count, and ``b[k] = a / mean rate``, so that a part that says nothing about
    a feature gets the mean rate. ``covariances[f] = inv(a * eye + outer(p, p) * J)`` with ``J = (activations.T /
    (activations @ p) ** 2 * X[f]) @ activations`` is the covariance of log p, from the curvature at the maximum. A
    feature without counts keeps rates of 0.

    The steps are Newton's, in log p. If one lowers the objective, an EM step, which cannot, takes its place.
    """
    (indptr, indices, values), (rates, covariances) = cells, out
    n_components = activations.shape[1]
    counts = np.empty(n_components)
    curvature = np.empty((n_components, n_components))
    before = np.empty(n_components)
    for f in range(start, stop):
        total = 0.0
        for p in range(indptr[f], indptr[f + 1]):
            total += values[p]
        exposure = exposures[min(f, exposures.shape[0] - 1)]
        covariances[f] = 0.0
        if total <= 0.0 or exposure.sum() <= 0.0:
            rates[f] = 0.0
            continue
        rate = rates[f]
        mean = total / exposure.sum()
        shrink = pseudocount / mean
        for k in range(n_components):
            rate[k] = max(rate[k], 1e-3 * mean)
        latest = -np.inf
        plain = False
        for _ in range(_MOST_ROUNDS):
            objective = 0.0
            counts[:] = 0.0
            curvature[:] = 0.0
            for p in range(indptr[f], indptr[f + 1]):
                row = activations[indices[p]]
                expected = 1e-300
                for k in range(n_components):
                    expected += row[k] * rate[k]
                objective += values[p] * math.log(expected)
                ratio = values[p] / expected
                square = ratio / expected
                for k in range(n_components):
                    counts[k] += ratio * row[k]
                    weight = square * row[k]
                    for c in range(k + 1):
                        curvature[k, c] += weight * row[c]
            worst = 0.0
            for k in range(n_components):
                counts[k] *= rate[k]
                objective += pseudocount * math.log(rate[k]) - (exposure[k] + shrink) * rate[k]
                worst = max(worst, abs(counts[k] + pseudocount - (exposure[k] + shrink) * rate[k]))
                for c in range(k + 1):
                    curvature[k, c] *= rate[k] * rate[c]
                    curvature[c, k] = curvature[k, c]
            if worst <= _SETTLED * (total + pseudocount):
                break
            if objective < latest and not plain:
                # The last step went too far: go back, and continue by EM.
                rate[:] = before
                plain = True
                latest = -np.inf
                continue
            latest = objective
            before[:] = rate
            if plain:
                for k in range(n_components):
                    rate[k] = (counts[k] + pseudocount) / (exposure[k] + shrink)
                plain = False
                continue
            slope = counts + pseudocount - (exposure + shrink) * rate
            matrix = curvature.copy()
            for k in range(n_components):
                matrix[k, k] += max(pseudocount, (exposure[k] + shrink) * rate[k] - counts[k])
            step = np.linalg.solve(matrix, slope)
            for k in range(n_components):
                rate[k] *= math.exp(min(max(step[k], -_LONGEST_STEP), _LONGEST_STEP))
        for k in range(n_components):
            curvature[k, k] += pseudocount
        covariances[f] = np.linalg.inv(curvature)
