"""Gauss quadrature for beta distributions, with nodes and weights that keep their digits far from the bulk.

For Beta(p, r) on [0, 1], the orthogonal polynomials with y_i(0) = 1 satisfy, with differences d_i = y_{i+1} - y_i,

    A_i d_i = C_i d_{i-1} - t y_i
    A_i = (i+p) (i+p+r-1) / ((2i+p+r-1) (2i+p+r)),  C_i = i (i+r-1) / ((2i+p+r-2) (2i+p+r-1))
    t (1 - t) y_n' = n ((n+r-1) d_{n-1} / (2n+p+r-2) - t y_n)

in which nothing cancels for small t. Nodes are the zeros of y_n. Weights are proportional to 1 / (t (1 - t) y_n'^2),
whose derivative at a node is small, so an error of the node hardly changes its weight. Nodes above 1/2 are found as
1 - t, with p and r swapped.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from partwise.kernels.gamma_functions import log_gamma_difference
from partwise.kernels.jit import kernel
from partwise.likelihood.kernels.rows import Floats

_NEWTON_STEPS = 3  # from eigenvalues, which are right to 1e-16 of the largest; checked against 50 digits in the tests
_ROUNDS = 8
_NOISE = 1e-13  # of eigenvalues, beside the largest


class BetaRule(NamedTuple):
    """Nodes t in ascending order, 1 - t, and the logarithms of the weights, which sum to one."""

    nodes: Floats
    complements: Floats
    log_weights: Floats


@kernel
def _polynomial(nodes: Floats, n: int, p: float, r: float, values: Floats, steps: Floats, exponents: Floats) -> None:
    """y_n and y_n - y_{n-1} at the nodes, both times two to a power."""
    total = p + r
    for j in range(nodes.size):
        values[j] = 1.0
        steps[j] = 0.0
        exponents[j] = 0.0
    for i in range(n):
        up, down = p / total, 0.0
        if i > 0:
            up = (i + p) / ((2 * i - 1) + total) * (((i - 1) + total) / (2 * i + total))
            down = i / ((2 * i - 2) + total) * (((i - 1) + r) / ((2 * i - 1) + total))
        inverse = 1.0 / up
        ratio = down * inverse
        for j in range(nodes.size):
            step = ratio * steps[j] - (inverse * nodes[j]) * values[j]
            steps[j] = step
            values[j] += step
        if i % _ROUNDS == _ROUNDS - 1:
            for j in range(nodes.size):
                size = abs(values[j]) + abs(steps[j])
                if not 1e-100 < size < 1e100:
                    shift = math.frexp(size)[1]
                    scale = math.ldexp(1.0, -shift)
                    values[j] *= scale
                    steps[j] *= scale
                    exponents[j] += shift


@kernel
def refine(n: int, p: float, r: float, nodes: Floats, log_weights: Floats) -> None:
    """Newton steps towards zeros of y_n, in place, then ``log_weights = -log(t (1 - t) y_n'(t)^2)``."""
    values, steps, exponents = np.empty(nodes.size), np.empty(nodes.size), np.empty(nodes.size)
    share = ((n - 1) + r) / ((2 * n - 2) + p + r)
    for _ in range(_NEWTON_STEPS):
        _polynomial(nodes, n, p, r, values, steps, exponents)
        for j in range(nodes.size):
            t = nodes[j]
            nodes[j] -= values[j] * t * (1.0 - t) / (n * (share * steps[j] - t * values[j]))
    _polynomial(nodes, n, p, r, values, steps, exponents)
    for j in range(nodes.size):
        t = nodes[j]
        slope = n * abs(share * steps[j] - t * values[j])
        log_weights[j] = math.log(t) + math.log1p(-t) - 2.0 * (math.log(slope) + exponents[j] * math.log(2.0))


@lru_cache(maxsize=512)
def beta_rule(n: int, p: float, r: float) -> BetaRule:
    """The rule with n nodes that integrates polynomials up to degree 2n - 1 exactly under Beta(p, r)."""
    from scipy.linalg import eigvalsh_tridiagonal

    if p > r:
        mirrored = beta_rule(n, r, p)
        return BetaRule(
            *(np.ascontiguousarray(a[::-1]) for a in (mirrored.complements, mirrored.nodes, mirrored.log_weights))
        )
    total = p + r
    i = np.arange(1.0, n)
    up = np.concatenate(([p / total], (i + p) / ((2 * i - 1) + total) * (((i - 1) + total) / (2 * i + total))))
    down = np.concatenate(([0.0], i / ((2 * i - 2) + total) * (((i - 1) + r) / ((2 * i - 1) + total))))
    guesses = eigvalsh_tridiagonal(up + down, np.sqrt(up[:-1] * down[1:])) if n > 1 else up
    low = guesses[guesses < 0.5]
    high = 1.0 - guesses[guesses >= 0.5][::-1]
    # Newton's first step from the end itself cannot pass the first zero. It ends close to that zero if the others are
    # far away. Guesses far below the largest eigenvalue are noise, and from above the zero, steps would cancel.
    for ends, first, largest in ((low, p, guesses[-1]), (high, r, 1.0)):
        step = first / (n * (n - 1 + total))
        ends[:1] = np.where(ends[:1] < _NOISE * largest, step, np.maximum(ends[:1], step))
    log_low, log_high = np.empty_like(low), np.empty_like(high)
    refine(n, p, r, low, log_low)
    refine(n, r, p, high, log_high)
    # y_n(1) brings the polynomials that are one at either end to the same scale.
    log_high += 2.0 * (log_gamma_difference(p, n) - log_gamma_difference(r, n))
    log_weights = np.concatenate((log_low, log_high[::-1]))
    log_weights -= log_weights.max()
    log_weights -= np.log(np.exp(log_weights).sum())
    return BetaRule(np.concatenate((low, 1.0 - high[::-1])), np.concatenate((1.0 - low, high[::-1])), log_weights)
