"""Newton's method for the evidence under one gamma distribution or two, which need not be concave in its variables."""

import math

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.jit import inner_kernel, kernel
from partwise.priors.base import Floats
from partwise.priors.kernels.evidence import ObservedCounts, component_terms, gamma_evidence, shape_constants

_LONGEST_STEP = 3.0
_MOST_HALVINGS = 30
_MOST_SWEEPS = 50


@inner_kernel
def eigen(matrix: Floats, vectors: Floats) -> None:
    """``values, vectors[:] = eigh(matrix); matrix[:] = diag(values)``, in no order, by Jacobi's rotations."""
    size = matrix.shape[0]
    for a in range(size):
        for b in range(size):
            vectors[a, b] = 1.0 if a == b else 0.0
    for _ in range(_MOST_SWEEPS):
        rotated = False
        for a in range(size):
            for b in range(a + 1, size):
                off = matrix[a, b]
                if abs(off) <= 1e-17 * (abs(matrix[a, a]) + abs(matrix[b, b])):
                    continue
                rotated = True
                ratio = (matrix[b, b] - matrix[a, a]) / (2.0 * off)
                tangent = math.copysign(1.0, ratio) / (abs(ratio) + math.sqrt(ratio * ratio + 1.0))
                cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
                sine = tangent * cosine
                for c in range(size):
                    old = matrix[c, a]
                    matrix[c, a] = cosine * old - sine * matrix[c, b]
                    matrix[c, b] = sine * old + cosine * matrix[c, b]
                for c in range(size):
                    old = matrix[a, c]
                    matrix[a, c] = cosine * old - sine * matrix[b, c]
                    matrix[b, c] = sine * old + cosine * matrix[b, c]
                    old = vectors[c, a]
                    vectors[c, a] = cosine * old - sine * vectors[c, b]
                    vectors[c, b] = sine * old + cosine * vectors[c, b]
                matrix[a, b] = 0.0
                matrix[b, a] = 0.0
        if not rotated:
            break


@kernel
def newton_step(gradient: Floats, hessian: Floats, out: Floats) -> None:
    """``out = V @ clip((V.T @ gradient) / abs(values), -3, 3)`` with ``values, V = eigh(hessian)``.

    The sign of positive eigenvalues is reversed, so that the step leads upward where the function is not concave. Steps
    are bounded along each eigenvector separately: a direction in which the function is nearly flat must not hold back
    the others.
    """
    size = gradient.size
    matrix = hessian.copy()
    vectors = np.empty((size, size))
    eigen(matrix, vectors)
    largest = 0.0
    for a in range(size):
        largest = max(largest, abs(matrix[a, a]))
    smallest = 1e-10 * largest + 1e-300
    out[:] = 0.0
    for a in range(size):
        along = 0.0
        for b in range(size):
            along += vectors[b, a] * gradient[b]
        along = min(max(along / max(abs(matrix[a, a]), smallest), -_LONGEST_STEP), _LONGEST_STEP)
        for b in range(size):
            out[b] += vectors[b, a] * along


@kernel
def _evaluate(
    data: ObservedCounts, shapes: Floats, means: Floats, point: Floats, gradient: Floats, hessian: Floats
) -> float:
    """The evidence at a point of `maximise_evidence`, with its derivatives."""
    first = means.size - 1
    at_shapes = np.empty(means.size)
    at_means = np.empty(means.size)
    for j in range(means.size):
        at_shapes[j] = math.inf if shapes[j] == math.inf else math.exp(point[first + 2 * j])
        at_means[j] = means[j] * math.exp(point[first + 2 * j + 1])
    if means.size == 2:
        return pair_evidence(data, point[0], at_shapes, at_means, gradient, hessian)
    out = np.empty(6)
    gamma_evidence(data, at_shapes[0], at_means[0], out)
    gradient[0], gradient[1] = out[1], out[2]
    hessian[0, 0], hessian[0, 1], hessian[1, 0], hessian[1, 1] = out[3], out[4], out[4], out[5]
    return float(out[0])


@kernel
def maximise_evidence(
    data: ObservedCounts,
    shapes: Floats,
    means: Floats,
    free: NDArray[np.int64],
    bound: Floats,
    tol: float,
    max_iter: int,
    point: Floats,
) -> float:
    """A local maximum of `gamma_evidence` (of one component) or `pair_evidence` (of two), from ``point`` on.

    ``point`` holds, after the log odds of the second of two components, for each component the logarithms of its shape
    and of its mean over ``means``; an infinite one of ``shapes`` stays. The variables at the positions ``free``
    are moved by `newton_step`, up to an absolute value of ``bound``. A step is halved until the evidence rises. The
    search ends when a step promises less than ``tol``. Returns the evidence at the end.
    """
    size = point.size
    gradient = np.zeros(size)
    hessian = np.zeros((size, size))
    inner_gradient = np.empty(free.size)
    inner_hessian = np.empty((free.size, free.size))
    step = np.empty(free.size)
    moved = point.copy()
    for a in range(free.size):
        at = free[a]
        point[at] = min(max(point[at], -bound[at]), bound[at])
    value = _evaluate(data, shapes, means, point, gradient, hessian)
    n_evaluations = 1
    for _ in range(max_iter):
        for a in range(free.size):
            inner_gradient[a] = gradient[free[a]]
            for b in range(free.size):
                inner_hessian[a, b] = hessian[free[a], free[b]]
        newton_step(inner_gradient, inner_hessian, step)
        for a in range(free.size):
            at = free[a]
            step[a] = min(max(point[at] + step[a], -bound[at]), bound[at]) - point[at]
        # A separate loop: in a loop that stores, the last bits of a sum may depend on addresses.
        promise = 0.0
        for a in range(free.size):
            promise += inner_gradient[a] * step[a]
        if not promise >= tol or n_evaluations > 2 * max_iter:
            break
        rose = False
        for _ in range(_MOST_HALVINGS):
            for a in range(free.size):
                moved[free[a]] = point[free[a]] + step[a]
            new_value = _evaluate(data, shapes, means, moved, gradient, hessian)
            n_evaluations += 1
            if new_value > value + 1e-4 * promise:
                rose = True
                break
            promise *= 0.5
            for a in range(free.size):
                step[a] *= 0.5
        if not rose:
            break
        for a in range(free.size):
            point[free[a]] = moved[free[a]]
        value = new_value
    return value


# Evidence of counts under a mixture of two gamma distributions or points, with derivatives.


@kernel
def pair_evidence(
    data: ObservedCounts, log_odds: float, shapes: Floats, means: Floats, gradient: Floats, hessian: Floats
) -> float:
    """``sum(repeats * log((1 - w) * exp(low) + w * exp(high)))``.

    ``w = expit(log_odds)``, and ``low`` and ``high`` are the `log_evidence` of each count under the two components.
    Derivatives are in log_odds, and in log shape and log mean of the first and of the second component. They are 0 in
    what a point does not have. Observations without exposure carry no information.
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
