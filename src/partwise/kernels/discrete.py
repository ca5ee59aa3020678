"""Poisson, binomial and negative binomial draws from a stream."""

from __future__ import annotations

import math

import numpy as np

from partwise.kernels.continuous import gamma
from partwise.kernels.inner import inner_kernel
from partwise.kernels.special import log_binomial, log_poisson
from partwise.kernels.streams import Stream, next_uniform

# From this mean on, rejection from a transformed uniform is valid and faster than inversion.
_REJECTION_FROM = 10.0
# P(count > 110) is below 1e-70 at a mean of 10: what rounding leaves over beyond it is drawn anew.
_INVERSION_LIMIT = 110


@inner_kernel
def poisson(stream: Stream, mean: float) -> int:
    """``rng.poisson(mean)``, for means up to 1e18 (beyond 2**53 counts are rounded as floats are)."""
    if mean >= _REJECTION_FROM:
        return _poisson_by_rejection(stream, mean)
    if mean <= 0.0:
        return 0
    start = math.exp(-mean)
    while True:
        rest = next_uniform(stream) - start
        probability = start
        count = 0
        while rest > 0.0 and count < _INVERSION_LIMIT:
            count += 1
            probability *= mean / count
            rest -= probability
        if count < _INVERSION_LIMIT:
            return count


@inner_kernel
def _poisson_by_rejection(stream: Stream, mean: float) -> int:
    # PTRS (Hoermann, 1993), with the acceptance test in terms that do not cancel at large means.
    root = math.sqrt(mean)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    squeeze = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u = next_uniform(stream) - 0.5
        v = next_uniform(stream)
        centred = 0.5 - abs(u)
        count = np.floor((2.0 * a / centred + b) * u + mean + 0.43)
        if centred >= 0.07 and v <= squeeze:
            return int(count)
        if count < 0.0 or (centred < 0.013 and v > centred):
            continue
        inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
        if math.log(v * inverse_alpha / (a / (centred * centred) + b)) <= log_poisson(count, mean):
            return int(count)


@inner_kernel
def binomial(stream: Stream, n: int, p: float) -> int:
    """``rng.binomial(n, p)``, for n up to 2**53 and 0 <= p <= 1; p beyond 0 or 1 by rounding counts as 0 or 1."""
    if n <= 0 or p <= 0.0:
        return 0
    if p >= 1.0:
        return int(n)
    if p > 0.5:
        return n - _binomial_below_half(stream, n, 1.0 - p)
    return _binomial_below_half(stream, n, p)


@inner_kernel
def _binomial_below_half(stream: Stream, n: int, p: float) -> int:
    if n * p >= _REJECTION_FROM:
        return _binomial_by_rejection(stream, n, p)
    odds = p / (1.0 - p)
    start = math.exp(n * math.log1p(-p))
    limit = min(n, _INVERSION_LIMIT)
    while True:
        rest = next_uniform(stream) - start
        probability = start
        count = 0
        while rest > 0.0 and count <= limit:
            probability *= odds * (n - count) / (count + 1)
            rest -= probability
            count += 1
        if count <= limit:
            return count


@inner_kernel
def _binomial_by_rejection(stream: Stream, n: int, p: float) -> int:
    # BTRS (Hoermann, 1993), with the acceptance test in terms that do not cancel at large n.
    size = float(n)
    root = math.sqrt(size * p * (1.0 - p))
    b = 1.15 + 2.53 * root
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = size * p + 0.5
    squeeze = 0.92 - 4.2 / b
    while True:
        u = next_uniform(stream) - 0.5
        v = next_uniform(stream)
        centred = 0.5 - abs(u)
        count = np.floor((2.0 * a / centred + b) * u + centre)
        if centred >= 0.07 and v <= squeeze:
            return int(count)
        if count < 0.0 or count > size:
            continue
        alpha = (2.83 + 5.1 / b) * root
        mode = np.floor((size + 1.0) * p)
        log_ratio = log_binomial(count, size, p) - log_binomial(mode, size, p)
        if math.log(v * alpha / (a / (centred * centred) + b)) <= log_ratio:
            return int(count)


@inner_kernel
def negative_binomial(stream: Stream, shape: float, p: float) -> int:
    """``rng.negative_binomial(shape, 1 - p)``: P(c) proportional to (1 - p)^shape p^c, 0 <= p < 1."""
    return poisson(stream, gamma(stream, shape) * (p / (1.0 - p)))
