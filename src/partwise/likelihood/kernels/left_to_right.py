"""The left-to-right estimator: features in turn, each predicted from the allocations of the features before it."""

import math

import numpy as np

from partwise.kernels.categories import multinomial
from partwise.kernels.continuous import gamma
from partwise.kernels.gamma_functions import log_gamma_difference
from partwise.kernels.jit import kernel
from partwise.kernels.streams import Stream, new_stream
from partwise.kernels.sums import longest_row
from partwise.likelihood.kernels.rows import Floats, Integers, RowModel, Words
from partwise.likelihood.kernels.sampling import SMALLEST, allocate, begin_row


@kernel
def exact_conditional(count: int, shapes: Floats, ratios: Floats, series: Floats) -> float:
    """``log of sum over c with c.sum() == count of prod_k NB(c_k; shapes_k, p_k)``, p = ratios / (1 + ratios) (Eq. 17).

    The sum is the coefficient of t^count in prod_k ((1 - p_k) / (1 - p_k t))^a_k, by the recurrence of its logarithm's
    derivative: m g_m = sum_j g_(m - j) sum_k a_k p_k^j. O(count²); the paper says that it is exponential in K.
    """
    largest = ratios.max() / (1.0 + ratios.max())
    for m in range(1, count + 1):
        power = 0.0
        for k in range(shapes.size):
            power += shapes[k] * (ratios[k] / (1.0 + ratios[k]) / largest) ** m
        series[count + m] = power
    series[0] = 1.0
    scale = 0.0
    for m in range(1, count + 1):
        total = 0.0
        for j in range(1, m + 1):
            total += series[m - j] * series[count + j]
        series[m] = total / m
        if series[m] > 1e100:
            for j in range(m + 1):
                series[j] *= 1e-100
            scale += 100.0 * math.log(10.0)
    log_value = math.log(series[count]) + scale + count * math.log(largest)
    for k in range(shapes.size):
        log_value -= shapes[k] * math.log1p(ratios[k])
    return log_value


@kernel
def sampled_conditional(
    stream: Stream,
    count: int,
    shapes: Floats,
    ratios: Floats,
    n_inner: int,
    weights: Floats,
    drawn: Integers,
    logs: Floats,
) -> float:
    """``log of mean over c ~ Multinomial(count, ∝ shapes * p) of prod NB(c; shapes, p) / Multinomial(c)`` (Eq. 20, 21).

    p = ratios / (1 + ratios): the proposal includes the feature itself in its denominator, so a count of one is exact.
    """
    total = 0.0
    fixed = -math.lgamma(count + 1.0)
    for k in range(shapes.size):
        weights[k] = shapes[k] * ratios[k] / (1.0 + ratios[k])
        total += weights[k]
        fixed -= shapes[k] * math.log1p(ratios[k])
    fixed += count * math.log(total)
    top = -np.inf
    for s in range(n_inner):
        multinomial(stream, count, weights, total, drawn)
        log_weight = 0.0
        for k in range(shapes.size):
            if drawn[k] > 1:
                log_weight += log_gamma_difference(shapes[k], drawn[k]) - drawn[k] * math.log(shapes[k])
        logs[s] = log_weight
        top = max(top, log_weight)
    mean = 0.0
    for s in range(n_inner):
        mean += math.exp(logs[s] - top) / n_inner
    return fixed + top + math.log(mean)


@kernel
def left_to_right_rows(
    model: RowModel, numbers: tuple[int, int, int], words: Words, start: int, stop: int, out: Floats, variances: Floats
) -> None:
    """``out[n]``: log of the product over features of averages of conditionals (L2R, Algorithm 1).

    The draws of a feature are sweeps of Gibbs chains, in turn, over the allocations of the features on its left. The
    feature then joins each chain with a draw from its proposal. ``n_inner = 0`` uses exact conditionals.
    ``variances[n]`` sums the squared relative standard errors of the averages, as if sweeps were independent.
    """
    n_draws, n_inner, n_chains = numbers
    shape, n_components = model.shape, model.shape.size
    largest = 1
    for p in range(model.indptr[start], model.indptr[stop]):
        largest = max(largest, model.values[p])
    token_weights = np.empty((longest_row(model.indptr, start, stop), n_components))
    totals = np.empty((n_chains, n_components))
    point, weights, left = np.empty(n_components), np.empty(n_components), np.empty(n_components)
    shapes, ratios = np.empty(n_components), np.empty(n_components)
    drawn = np.empty(n_components, np.int64)
    series, inner_logs, logs = np.empty(2 * largest + 1), np.empty(max(n_inner, 1)), np.empty(n_draws)
    stream = new_stream()
    for n in range(start, stop):
        scale = model.inverse_rates[min(n, model.inverse_rates.shape[0] - 1)]
        first, end = begin_row(model, n, words, stream, token_weights)
        counts = model.values[first:end]
        out[n] = 0.0
        variances[n] = 0.0
        totals[:, :] = 0.0
        for k in range(n_components):
            left[k] = model.rate[k]
        for w in range(counts.size + 1):
            top = -np.inf
            if model.stop[0]:
                return
            for s in range(n_draws):
                chain = totals[s % n_chains]
                if w > 0:
                    for k in range(n_components):
                        point[k] = max(gamma(stream, shape[k] + chain[k]) / left[k], SMALLEST)
                    allocate(stream, counts[:w], token_weights, point, weights, drawn, chain)
                if w < counts.size:
                    for k in range(n_components):
                        shapes[k] = shape[k] + chain[k]
                        ratios[k] = token_weights[w, k] / left[k]
                    if n_inner == 0:
                        logs[s] = exact_conditional(counts[w], shapes, ratios, series)
                    else:
                        logs[s] = sampled_conditional(
                            stream, counts[w], shapes, ratios, n_inner, weights, drawn, inner_logs
                        )
                else:
                    # All features without counts at once (Eq. 22).
                    total = 0.0
                    for k in range(n_components):
                        total += (shape[k] + chain[k]) * math.log(left[k] * scale[k])
                    logs[s] = total
                top = max(top, logs[s])
            mean, squares = 0.0, 0.0
            if model.stop[0]:
                return
            for s in range(n_draws):
                weight = math.exp(logs[s] - top)
                mean += weight / n_draws
                squares += weight * weight / n_draws
            out[n] += top + math.log(mean)
            if n_draws > 1:
                variances[n] += max(squares / (mean * mean) - 1.0, 0.0) / (n_draws - 1)
            if w < counts.size:
                for k in range(n_components):
                    left[k] += token_weights[w, k]
                for chain in totals:
                    for k in range(n_components):
                        weights[k] = (shape[k] + chain[k]) * token_weights[w, k] / left[k]
                    total = 0.0
                    for k in range(n_components):
                        total += weights[k]
                    multinomial(stream, counts[w], weights, total, drawn)
                    for k in range(n_components):
                        chain[k] += drawn[k]
