"""Evidence of counts under a mixture of two gamma distributions or points, with derivatives."""

from __future__ import annotations

import math

import numpy as np

from partwise.kernels.jit import kernel
from partwise.priors.base import Floats
from partwise.priors.kernels.evidence import ObservedCounts, component_terms, shape_constants


@kernel
def pair_evidence(
    data: ObservedCounts, log_odds: float, shapes: Floats, means: Floats, gradient: Floats, hessian: Floats
) -> float:
    """``sum(repeats * log((1 - w) * exp(low) + w * exp(high)))``.

    ``w = expit(log_odds)``, and ``low`` and ``high`` are the `log_evidence` of each count under the two components.
    Derivatives are in (log_odds, log shape and log mean of the first, of the second component), and 0 in what a point
    does not have. Observations without exposure say nothing.
    """
    counts, exposure, repeats = data.counts, data.exposure, data.repeats
    low_shape, high_shape = shape_constants(shapes[0]), shape_constants(shapes[1])
    # log of the weights, without cancellation at either end
    log_high_weight = -math.log1p(math.exp(-log_odds)) if log_odds > 0.0 else log_odds - math.log1p(math.exp(log_odds))
    log_low_weight = log_high_weight - log_odds
    weight = math.exp(log_high_weight)
    slope = np.zeros((2, 2))
    total = 0.0
    gradient[:] = 0.0
    hessian[:] = 0.0
    for i in range(counts.size):
        s = exposure[i] if exposure.size > 1 else exposure[0]
        times = repeats[i] if repeats.size > 1 else repeats[0]
        if s == 0.0:
            continue
        low = component_terms(counts[i], s * means[0], low_shape)
        high = component_terms(counts[i], s * means[1], high_shape)
        low_score, high_score = log_low_weight + low.value, log_high_weight + high.value
        largest = max(low_score, high_score)
        if largest == -math.inf:
            return -math.inf
        low_part, high_part = math.exp(low_score - largest), math.exp(high_score - largest)
        norm = low_part + high_part
        total += times * (largest + math.log(norm))
        # All that follows is summed with these: r, q and r q, times the repeats.
        r, q = times * low_part / norm, times * high_part / norm
        both = r * high_part / norm
        gradient[0] += q - times * weight
        hessian[0, 0] += both - times * weight * (1.0 - weight)
        slope[0, 0], slope[0, 1], slope[1, 0], slope[1, 1] = low.by_shape, low.by_mean, high.by_shape, high.by_mean
        for a in range(2):
            gradient[1 + a] += r * slope[0, a]
            gradient[3 + a] += q * slope[1, a]
            hessian[0, 1 + a] -= both * slope[0, a]
            hessian[0, 3 + a] += both * slope[1, a]
            for b in range(2):
                hessian[1 + a, 3 + b] -= both * slope[0, a] * slope[1, b]
                hessian[1 + a, 1 + b] += both * slope[0, a] * slope[0, b]
                hessian[3 + a, 3 + b] += both * slope[1, a] * slope[1, b]
        hessian[1, 1] += r * low.by_shape_twice
        hessian[1, 2] += r * low.by_both
        hessian[2, 2] += r * low.by_mean_twice
        hessian[3, 3] += q * high.by_shape_twice
        hessian[3, 4] += q * high.by_both
        hessian[4, 4] += q * high.by_mean_twice
    for a in range(5):
        for b in range(a):
            hessian[a, b] = hessian[b, a]
    return total
