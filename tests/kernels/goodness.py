"""Samples from the kernels' draws, and tests of fit that return p-values.

False alarms: every statistical test of this folder asks for p > ALARM, and fewer than 400 p-values are looked at in all
(slow ones included), so that the chance of any false alarm, for seeds chosen blindly, is below 4e-4.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from scipy import stats

from partwise.kernels.streams import new_stream, next_uint64, seek

ALARM = 1e-6
Floats = npt.NDArray[np.float64]

# Fine in both tails, where rejection methods go wrong first.
_TAIL = np.array([1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3])
PROBABILITIES = np.concatenate([_TAIL, np.linspace(0.01, 0.99, 50), 1.0 - _TAIL[::-1]])


@functools.cache
def _filler(draw: Callable[..., Any]) -> Any:
    @numba.njit(error_model="numpy")
    def fill(seed, parameters, out):  # type: ignore[no-untyped-def]
        stream = new_stream()
        for i in range(out.shape[0]):
            if i % 64 == 0:  # many rows and many draws a row: both must be right
                seek(stream, seed, 0, 0, i)
            out[i] = draw(stream, *parameters)

    return fill


def sample(draw: Callable[..., Any], *parameters: Any, size: int, seed: int = 1, dtype: Any = np.float64) -> Any:
    """``size`` draws of a scalar distribution."""
    out = np.empty(size, dtype)
    _filler(draw)(np.uint64(seed), parameters, out)
    return out


@functools.cache
def _row_filler(draw: Callable[..., Any]) -> Any:
    @numba.njit(error_model="numpy")
    def fill(seed, parameters, out):  # type: ignore[no-untyped-def]
        stream = new_stream()
        for i in range(out.shape[0]):
            if i % 16 == 0:
                seek(stream, seed, 0, 0, i)
            draw(stream, *parameters, out[i])

    return fill


def sample_rows(
    draw: Callable[..., Any], *parameters: Any, size: int, width: int, seed: int = 1, dtype: Any = np.float64
) -> Any:
    """``size`` draws of a distribution of vectors."""
    out = np.empty((size, width), dtype)
    _row_filler(draw)(np.uint64(seed), parameters, out)
    return out


def chi_square(observed: npt.ArrayLike, expected: npt.ArrayLike) -> float:
    """Pearson's test; bins with fewer than 5 expected counts are pooled, none at all may lie where none can."""
    observed, expected = np.asarray(observed, float).ravel(), np.asarray(expected, float).ravel()
    if observed[expected == 0.0].any():
        return 0.0
    rare = expected < 5.0
    observed = np.append(observed[~rare], observed[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 1.0:  # too few for a bin of their own: they join the largest one
        largest = int(np.argmax(expected))
        observed[largest] += observed[-1]
        expected[largest] += expected[-1]
        observed, expected = observed[:-1], expected[:-1]
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, max(len(expected) - 1, 1)))


def uniform_fit(values: Floats) -> float:
    """The smaller, doubled, p-value of Kolmogorov's test and of a chi-square test with fine bins in the tails."""
    assert np.isfinite(values).all()
    edges = np.concatenate([[0.0], PROBABILITIES, [1.0]])
    observed = np.histogram(values, edges)[0]
    binned = chi_square(observed, len(values) * np.diff(edges))
    return float(min(1.0, 2.0 * min(binned, stats.kstest(values, "uniform").pvalue)))


def continuous_fit(values: Floats, cdf: Callable[[Floats], Floats]) -> float:
    """Fit of a sample to a continuous distribution."""
    return uniform_fit(cdf(values))


def discrete_fit(values: npt.NDArray[np.int64], distribution: Any) -> float:
    """Chi-square fit of a sample to a frozen discrete distribution of scipy."""
    edges = np.unique(distribution.ppf(PROBABILITIES))
    expected = np.diff(np.concatenate([[0.0], distribution.cdf(edges), [1.0]]))
    observed = np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1)
    return chi_square(observed, len(values) * np.maximum(expected, 0.0))


def mean_fit(values: Floats, mean: float, variance: float) -> float:
    """Two-sided test of the mean, the variance being known."""
    z = (float(np.mean(values)) - mean) / np.sqrt(variance / len(values))
    return float(2.0 * stats.norm.sf(abs(z)))


def with_bits(bits: int) -> npt.NDArray[np.uint64]:
    """A stream whose next eight words are given."""
    stream = new_stream()
    seek(stream, np.uint64(0), np.uint64(0), np.uint64(0), 0)
    next_uint64(stream)
    stream[6:14] = bits
    return stream
