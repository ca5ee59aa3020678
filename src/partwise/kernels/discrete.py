"""Poisson and binomial draws from a stream."""

import math

import numpy as np

from partwise.kernels.jit import inner_kernel
from partwise.kernels.special import log_binomial_scaled, log_poisson_scaled
from partwise.kernels.streams import Stream, next_uniform

# From this mean on, rejection from a transformed uniform (valid from 10 on) is faster than inversion.
_REJECTION_FROM = 20.0
_LARGEST_MEAN = 1e18
# P(count > 127) is below 1e-50 at a mean of 20: what rounding leaves over beyond it is drawn again.
_INVERSION_LIMIT = 127
_RECIPROCALS = 1.0 / np.maximum(np.arange(_INVERSION_LIMIT + 1), 0.5)
# Up to this n, (1 - p)^n by multiplication is as good as by logarithms, and faster.
_POWER_LIMIT = 1023


@inner_kernel
def poisson(stream: Stream, mean: float) -> int:
    """``rng.poisson(mean)``, for means up to 1e18 (beyond 2**53 counts are rounded as floats are)."""
    if mean <= 0.0:
        return 0
    if not mean < _REJECTION_FROM:
        return _poisson_by_rejection(stream, mean)
    start = math.exp(-mean)
    while True:
        rest = next_uniform(stream) - start
        probability = start
        count = 0
        while rest > 0.0 and count < _INVERSION_LIMIT:
            count += 1
            probability *= mean * _RECIPROCALS[count]
            rest -= probability
        if rest <= 0.0:
            return count


@inner_kernel
def _poisson_by_rejection(stream: Stream, mean: float) -> int:
    # PTRS (Hoermann, 1993), with the acceptance test in terms that do not cancel at large means.
    if not mean <= _LARGEST_MEAN:
        raise OverflowError("the mean of a Poisson draw is not a number, or above 1e18")
    b = 0.931 + 2.53 * math.sqrt(mean)
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
        scale = math.sqrt(2.0 * math.pi * max(count, 1.0))
        if math.log(v * inverse_alpha * scale / (a / (centred * centred) + b)) <= log_poisson_scaled(count, mean):
            return int(count)


@inner_kernel
def binomial(stream: Stream, n: int, p: float) -> int:
    """``rng.binomial(n, p)``, for n up to 2**53 and 0 <= p <= 1; p beyond 0 or 1 by rounding counts as 0 or 1."""
    if n <= 0 or p <= 0.0:
        return 0
    if p >= 1.0:
        return int(n)
    small = min(p, 1.0 - p)
    if not small > 0.0:
        raise ValueError("the probability of a binomial draw is not a number")
    if n * small >= _REJECTION_FROM:
        count = _binomial_by_rejection(stream, float(n), small)
    else:
        count = _binomial_by_inversion(stream, n, small)
    return count if p <= 0.5 else n - count


@inner_kernel
def _binomial_by_inversion(stream: Stream, n: int, p: float) -> int:
    odds = p / (1.0 - p)
    factor = (n + 1) * odds
    start = _power(1.0 - p, n) if n <= _POWER_LIMIT else math.exp(n * math.log1p(-p))
    limit = min(n, _INVERSION_LIMIT)
    while True:
        rest = next_uniform(stream) - start
        probability = start
        count = 0
        while rest > 0.0 and count < limit:
            count += 1
            probability *= factor * _RECIPROCALS[count] - odds
            rest -= probability
        if rest <= 0.0:
            return count


@inner_kernel
def _power(base: float, exponent: int) -> float:
    result = 1.0
    while exponent > 0:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


@inner_kernel
def _binomial_by_rejection(stream: Stream, n: float, p: float) -> int:
    # BTRS (Hoermann, 1993), with the acceptance test in terms that do not cancel at large n.
    root = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * root
    a = -0.0873 + 0.0248 * b + 0.01 * p
    squeeze = 0.92 - 4.2 / b
    while True:
        u = next_uniform(stream) - 0.5
        v = next_uniform(stream)
        centred = 0.5 - abs(u)
        count = np.floor((2.0 * a / centred + b) * u + n * p + 0.5)
        if centred >= 0.07 and v <= squeeze:
            return int(count)
        if count < 0.0 or count > n:
            continue
        alpha = (2.83 + 5.1 / b) * root
        mode = np.floor((n + 1.0) * p)
        scale = math.sqrt(max(count, 1.0) * max(n - count, 1.0) / (mode * (n - mode)))
        log_ratio = log_binomial_scaled(count, n, p) - log_binomial_scaled(mode, n, p)
        if math.log(v * alpha * scale / (a / (centred * centred) + b)) <= log_ratio:
            return int(count)
