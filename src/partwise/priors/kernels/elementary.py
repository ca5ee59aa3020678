"""Exponentials and logarithms without branches or calls, so that loops over them vectorise."""

import math

import numpy as np

from partwise.kernels.jit import inline_kernel

# log 2, and in two parts: halvings times the first is exact.
_LOG_2 = 0.6931471805599453
_LOG2_E, _LOG_2_HIGH, _LOG_2_LOW = 1.4426950408889634, 0.693145751953125, 1.4286068203094172e-06


@inline_kernel
def exp_of_negative(x: float) -> float:
    """``exp(x)`` for x <= 0 to the last digit, and 0 below -708."""
    safe = max(x, -708.0)
    halvings = math.floor(safe * _LOG2_E + 0.5)
    rest = safe - halvings * _LOG_2_HIGH
    rest -= halvings * _LOG_2_LOW
    high = 1 / 40320 + rest * (1 / 362880 + rest * (1 / 3628800 + rest * (1 / 39916800 + rest * (1 / 479001600))))
    middle = 1 / 24 + rest * (1 / 120 + rest * (1 / 720 + rest * (1 / 5040 + rest * high)))
    series = 1.0 + rest * (1.0 + rest * (1 / 2 + rest * (1 / 6 + rest * middle)))
    power = np.int64((np.int64(halvings) + 1023) << 52).view(np.float64)
    return series * power if x > -708.0 else 0.0


@inline_kernel
def log_beside_one(x: float, beyond: float) -> float:
    """``log(x)`` to the last digits for positive normal numbers, and -1e180 for 0; ``beyond = x - 1`` counts near 1."""
    bits = np.float64(x).view(np.int64)
    power = (bits >> 52) - 1023
    mantissa = np.int64((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64)
    upper = mantissa > 1.4142135623730951
    mantissa = 0.5 * mantissa if upper else mantissa
    exponent = power + 1.0 if upper else power + 0.0
    ratio = (beyond if exponent == 0.0 else mantissa - 1.0) / (mantissa + 1.0)
    z = ratio * ratio
    high = 1 / 11 + z * (1 / 13 + z * (1 / 15 + z * (1 / 17 + z * (1 / 19))))
    series = 1.0 + z * (1 / 3 + z * (1 / 5 + z * (1 / 7 + z * (1 / 9 + z * high))))
    return exponent * _LOG_2 + 2.0 * ratio * series if x > 0.0 else -1e180
