"""Gamma, beta and Dirichlet draws from a stream, also in log space where plain draws would underflow."""

import math

import numpy as np
import numpy.typing as npt

from partwise.kernels.jit import inner_kernel
from partwise.kernels.streams import Stream, next_exponential, next_normal, next_uniform

_LOWEST = -np.finfo(np.float64).max
# P(sum of gammas < 1e-300) is below 1e-149 from this total on, and grows fast below it.
_SAFE_CONCENTRATION = 0.5
_EASY = 0.4  # bounds up to here, in standard deviations, that plain rejection reaches soon


@inner_kernel
def _gamma_from_one(stream: Stream, shape: float) -> float:
    # Shape >= 1: a cubed normal with rejection (Marsaglia and Tsang, 2000).
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = next_normal(stream)
        t = c * x
        if t <= -1.0:
            continue
        u = next_uniform(stream)
        square = x * x
        # The authors' squeeze, and above t = -1/2 a tighter one: 3 d _log1p_rest(t) > -3 d t^4 / 2 = -t^2 x^2 / 6.
        bound = t * t * (1.0 / 6.0) if t > -0.5 else 0.0331 * square
        if u < 1.0 - bound * square or math.log(u) < 3.0 * d * _log1p_rest(t):
            root = 1.0 + t
            return d * root * root * root


@inner_kernel
def _log1p_rest(t: float) -> float:
    # log(1 + t) - t + t^2/2 - t^3/3, by its series near 0: shapes of 1e10 and more would magnify the cancellation.
    if abs(t) < 0.01:
        return -t * t * t * t * (0.25 - t * (0.2 - t * (1.0 / 6.0 - t * (1.0 / 7.0 - t * 0.125))))
    return math.log1p(t) - t * (1.0 - t * (0.5 - t / 3.0))


@inner_kernel
def gamma(stream: Stream, shape: float) -> float:
    """``rng.standard_gamma(shape)``: Gamma with rate 1. Shape 0 gives 0; small shapes may underflow to 0."""
    if shape >= 1.0:
        return _gamma_from_one(stream, shape)
    if shape > 0.0:
        return _gamma_from_one(stream, shape + 1.0) * math.exp(-next_exponential(stream) / shape)
    return 0.0 if shape <= 0.0 else math.nan  # rejection would never end with NaN


@inner_kernel
def log_gamma_variate(stream: Stream, shape: float) -> float:
    """``np.log(rng.standard_gamma(shape))``, but finite for every shape > 0 (-inf for shape 0)."""
    if shape >= 1.0:
        return math.log(_gamma_from_one(stream, shape))
    if shape > 0.0:
        return max(math.log(_gamma_from_one(stream, shape + 1.0)) - next_exponential(stream) / shape, _LOWEST)
    return -math.inf if shape <= 0.0 else math.nan


@inner_kernel
def _beta_log_odds(stream: Stream, a: float, b: float) -> float:
    # log((1 - x) / x) of a beta variate x.
    if not (a < 1.0 and b < 1.0):
        return log_gamma_variate(stream, b) - log_gamma_variate(stream, a)
    while True:  # Joehnk (1964)
        minus_log_left = next_exponential(stream) / a
        minus_log_right = next_exponential(stream) / b
        if math.exp(-minus_log_left) + math.exp(-minus_log_right) <= 1.0:
            break
    log_odds = minus_log_left - minus_log_right
    if math.isnan(log_odds):
        return math.inf if next_uniform(stream) < 0.5 else -math.inf
    return log_odds


@inner_kernel
def beta(stream: Stream, a: float, b: float) -> float:
    """``rng.beta(a, b)``. With a = 0 it is 0, with b = 0 it is 1, with both a fair coin (their common limit)."""
    if a < 1.0 and b < 1.0:
        return 1.0 / (1.0 + math.exp(_beta_log_odds(stream, a, b)))
    left = gamma(stream, a)
    return left / (left + gamma(stream, b))


@inner_kernel
def dirichlet(stream: Stream, concentration: npt.NDArray[np.float64], out: npt.NDArray[np.float64]) -> None:
    """``out[:] = rng.dirichlet(concentration)``, also for tiny concentrations; 0 where the concentration is 0."""
    total = 0.0
    for k in range(concentration.shape[0]):
        total += concentration[k]
    if total < _SAFE_CONCENTRATION:
        log_dirichlet(stream, concentration, out)
        for k in range(concentration.shape[0]):
            out[k] = math.exp(out[k])
        return
    total = 0.0
    for k in range(concentration.shape[0]):
        draw = gamma(stream, concentration[k])
        out[k] = draw
        total += draw
    scale = 1.0 / total
    for k in range(concentration.shape[0]):
        out[k] *= scale


@inner_kernel
def log_dirichlet(stream: Stream, concentration: npt.NDArray[np.float64], out: npt.NDArray[np.float64]) -> None:
    """``out[:] = np.log(rng.dirichlet(concentration))``, finite where the concentration is positive.

    All concentrations 0 give a corner of the simplex, each with the same probability (their common limit).
    """
    largest = -math.inf
    for k in range(concentration.shape[0]):
        draw = log_gamma_variate(stream, concentration[k])
        out[k] = draw
        largest = max(largest, draw)
    if largest == -math.inf:
        out[min(int(next_uniform(stream) * out.shape[0]), out.shape[0] - 1)] = 0.0
        return
    total = 0.0
    for k in range(concentration.shape[0]):
        total += math.exp(out[k] - largest)
    log_total = math.log(total)
    for k in range(concentration.shape[0]):
        if concentration[k] > 0.0:
            # The maximum also keeps the compiler from adding log_total to a huge common offset first.
            out[k] = max(out[k] - largest, _LOWEST) - log_total


@inner_kernel
def normal_above(stream: Stream, bound: float) -> float:
    """A standard normal number above a bound (Robert 1995)."""
    if bound < _EASY:
        while True:
            value = next_normal(stream)
            if value > bound:
                return value
    steepness = 0.5 * (bound + math.sqrt(bound * bound + 4.0))
    while True:
        value = bound + next_exponential(stream) / steepness
        if next_uniform(stream) < math.exp(-0.5 * (value - steepness) ** 2):
            return value
