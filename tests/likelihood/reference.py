"""Brute force at high precision: p(x) and posterior moments by their definitions, sharing nothing with the library."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import mpmath as mp
import numpy as np

DIGITS = 50


def _compositions(total: int, n_parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a total as an ordered sum of nonnegative parts."""
    if n_parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, n_parts - 1):
            yield (first, *rest)


def _model(dictionary: Any, shape: Any, rate: Any) -> tuple[list[list[Any]], list[Any], list[Any]]:
    weights = np.asarray(dictionary, dtype=float)
    n_components = weights.shape[1]
    a = [mp.mpf(float(v)) for v in np.broadcast_to(shape, n_components)]
    b = [mp.mpf(float(v)) for v in np.broadcast_to(rate, n_components)]
    return [[mp.mpf(float(v)) for v in row] for row in weights], a, b


def _terms(x: Any, dictionary: Any, shape: Any, rate: Any) -> Iterator[tuple[Any, tuple[tuple[int, ...], ...]]]:
    """Every allocation of the counts, with its probability: negative multinomials, one a component (MATH 1, ii)."""
    weights, a, b = _model(dictionary, shape, rate)
    n_components = len(a)
    totals = [mp.fsum(row[k] for row in weights) for k in range(n_components)]
    q = [[row[k] / (totals[k] + b[k]) for k in range(n_components)] for row in weights]
    for allocation in itertools.product(*(list(_compositions(int(v), n_components)) for v in x)):
        value = mp.mpf(1)
        for k in range(n_components):
            count = sum(cell[k] for cell in allocation)
            value *= mp.rf(a[k], count) * (b[k] / (totals[k] + b[k])) ** a[k]
            for f, cell in enumerate(allocation):
                value *= q[f][k] ** cell[k] / mp.factorial(cell[k])
        yield value, allocation


def log_probability(x: Any, dictionary: Any, shape: Any, rate: Any) -> float:
    """Log p(x), by summing over all allocations of the counts."""
    with mp.workdps(DIGITS):
        value = mp.fsum(value for value, _ in _terms(x, dictionary, shape, rate))
        return float(mp.log(value)) if value > 0 else -np.inf


def posterior(x: Any, dictionary: Any, shape: Any, rate: Any) -> dict[str, Any]:
    """Posterior moments of one row by summing over all allocations; allocations for all features, zero counts too."""
    with mp.workdps(DIGITS):
        weights, a, b = _model(dictionary, shape, rate)
        n_features, n_components = len(weights), len(a)
        rates = [mp.fsum(row[k] for row in weights) + b[k] for k in range(n_components)]
        total = mp.mpf(0)
        first, second, logs, counts = ([mp.mpf(0)] * n_components for _ in range(4))
        cells = [[mp.mpf(0)] * n_components for _ in range(n_features)]
        for value, allocation in _terms(x, dictionary, shape, rate):
            total += value
            for k in range(n_components):
                count = sum(cell[k] for cell in allocation)
                # Given the allocation, h_k ~ Gamma(a_k + count, rate b_k + w_+k).
                counts[k] += value * count
                first[k] += value * (a[k] + count) / rates[k]
                second[k] += value * (a[k] + count) * (a[k] + count + 1) / rates[k] ** 2
                logs[k] += value * (mp.digamma(a[k] + count) - mp.log(rates[k]))
                for f, cell in enumerate(allocation):
                    cells[f][k] += value * cell[k]
        means = [v / total for v in first]
        return {
            "activations": np.array([float(v) for v in means]),
            "variances": np.array([float(v / total - m**2) for v, m in zip(second, means, strict=True)]),
            "log_activations": np.array([float(v / total) for v in logs]),
            "totals": np.array([float(v / total) for v in counts]),
            "allocations": np.array([[float(v / total) for v in row] for row in cells]),
        }


def log_probability_of_two(x: Any, dictionary: Any, shape: Any, rate: Any) -> float:
    """Log p(x) of a long row under two components, as an integral over their mixing proportion (tanh-sinh quadrature).

    For shapes that are neither tiny nor huge: the error that mpmath reports must be below 1e-14.
    """
    with mp.workdps(30):
        weights, a, b = _model(dictionary, shape, rate)
        totals = [mp.fsum(row[k] for row in weights) for k in range(2)]
        tokens = [
            (int(count), weights[f][0] / (totals[0] + b[0]), weights[f][1] / (totals[1] + b[1]))
            for f, count in enumerate(x)
            if count
        ]
        length = sum(count for count, _, _ in tokens)

        def log_integrand(t: Any) -> Any:
            prior = (a[0] - 1) * mp.log(t) + (a[1] - 1) * mp.log1p(-t)
            return prior + mp.fsum(count * mp.log(first * t + second * (1 - t)) for count, first, second in tokens)

        mode = max((mp.mpf(i) / 200 for i in range(1, 200)), key=log_integrand)
        top = log_integrand(mode)
        steps = [mode + j / mp.sqrt(length + 1) for j in (-40, -20, -10, -5, -2, -1, 0, 1, 2, 5, 10, 20, 40)]
        breaks = sorted({mp.mpf(0), mp.mpf(1), *(t for t in steps if 0 < t < 1)})
        integral, error = mp.quad(lambda t: mp.exp(log_integrand(t) - top), breaks, error=True)
        if not error / integral < mp.mpf("1e-14"):
            raise ArithmeticError(f"the reference integral is only known to {error / integral}")
        value = top + mp.log(integral) - mp.log(mp.beta(*a)) + mp.loggamma(sum(a) + length) - mp.loggamma(sum(a))
        value += mp.fsum(a[k] * mp.log(b[k] / (totals[k] + b[k])) for k in range(2))
        return float(value - mp.fsum(mp.loggamma(count + 1) for count, _, _ in tokens))
