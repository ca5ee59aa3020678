"""The factor of rows for given weights of the columns. Each row is fitted by itself, so batches do not matter.

``weights[x, f, k]`` is the weight of component k where column f shows bit x. It is w_fk for both bits if the rows have
a beta factor, w_fk and 1 - w_fk if they have a Dirichlet factor. Given its second label, a cell of Dir-Dir is a cell of
Dir-Beta.
"""

import math

import numpy as np

from partwise.binary.kernels.cells import Listed
from partwise.kernels.arrays import Floats, Words
from partwise.kernels.categories import categorical
from partwise.kernels.gamma_functions import digamma
from partwise.kernels.jit import inner_kernel, kernel
from partwise.kernels.streams import new_stream, seek
from partwise.kernels.sums import longest_row, sum_of

# Products of two weights must not underflow.
GivenColumns = tuple[Floats, bool, Floats, Floats]
"""Weights of bits and columns, whether rows are Dirichlet, and the prior of the rows."""
_SMALLEST = 1e-140


@inner_kernel
def _mean_logs(counts: Floats, is_dirichlet: bool, alpha: Floats, beta: Floats, out: Floats) -> None:
    # exp E log of the factor, for each bit; counts are bit x components
    n_components = counts.shape[1]
    if is_dirichlet:
        total = 0.0
        for k in range(n_components):
            total += alpha[k] + counts[0, k] + counts[1, k]
        log_total = digamma(total)
        for k in range(n_components):
            weight = math.exp(digamma(alpha[k] + counts[0, k] + counts[1, k]) - log_total)
            out[0, k] = out[1, k] = max(weight, _SMALLEST)
        return
    for k in range(n_components):
        both = digamma(alpha[k] + beta[k] + counts[0, k] + counts[1, k])
        out[0, k] = max(math.exp(digamma(beta[k] + counts[0, k]) - both), _SMALLEST)
        out[1, k] = max(math.exp(digamma(alpha[k] + counts[1, k]) - both), _SMALLEST)


@inner_kernel
def _means(counts: Floats, is_dirichlet: bool, alpha: Floats, beta: Floats, out: Floats) -> None:
    # the factor's mean for each bit: h and 1 - h of a beta factor, h twice of a Dirichlet factor
    n_components = counts.shape[1]
    if is_dirichlet:
        total = 0.0
        for k in range(n_components):
            total += alpha[k] + counts[0, k] + counts[1, k]
        for k in range(n_components):
            if total > 0.0:
                out[0, k] = out[1, k] = (alpha[k] + counts[0, k] + counts[1, k]) / total
        return
    for k in range(n_components):
        both = alpha[k] + beta[k] + counts[0, k] + counts[1, k]
        if both > 0.0:
            out[0, k] = (beta[k] + counts[0, k]) / both
            out[1, k] = (alpha[k] + counts[1, k]) / both


@kernel
def fit_rows(
    cells: Listed, given: GivenColumns, rule: tuple[bool, int, float], start: int, stop: int, out: Floats
) -> None:
    """Iterate ``r = normalise(weights[x, f] * local[x]); counts[x] = sum of r`` until the counts stop changing.

    ``local`` is exp E log of the factor (variational Bayes), or its mean (EM, priors 0). A Dirichlet factor has
    concentration ``alpha``. ``out[n, k, x]`` are the counts.
    """
    (row_starts, codes), (weights, is_dirichlet, alpha, beta), (by_mean_logs, max_iter, tol) = cells, given, rule
    n_components = weights.shape[2]
    counts, fresh, local = np.empty((2, n_components)), np.empty((2, n_components)), np.empty((2, n_components))
    shares = np.empty(n_components)
    for n in range(start, stop):
        counts[:] = 0.0
        size = row_starts[n + 1] - row_starts[n]
        for p in range(row_starts[n], row_starts[n + 1]):
            counts[codes[p] & 1] += 1.0 / n_components
        for _ in range(max_iter if size > 0 else 0):
            if by_mean_logs:
                _mean_logs(counts, is_dirichlet, alpha, beta, local)
            else:
                _means(counts, is_dirichlet, alpha, beta, local)
            fresh[:] = 0.0
            for p in range(row_starts[n], row_starts[n + 1]):
                f, x = codes[p] >> 1, codes[p] & 1
                for k in range(n_components):
                    shares[k] = weights[x, f, k] * local[x, k]
                total = sum_of(shares)
                if total > 0.0:
                    scale = 1.0 / total
                    for k in range(n_components):
                        fresh[x, k] += shares[k] * scale
            change = 0.0
            for x in range(2):
                for k in range(n_components):
                    change = max(change, abs(fresh[x, k] - counts[x, k]))
                    counts[x, k] = fresh[x, k]
            if change <= tol * size:
                break
        for k in range(n_components):
            out[n, k, 0] = counts[0, k]
            out[n, k, 1] = counts[1, k]


@kernel
def sample_rows(
    cells: Listed, given: GivenColumns, lengths: tuple[int, int], words: Words, start: int, stop: int, out: Floats
) -> None:
    """``out[n] = E[factor | row n]``, by Gibbs sampling of labels with the factor integrated out.

    The average over draws of the factor's mean given the labels. All rows use the same stream, so that the result of a
    row does not depend on its position.
    """
    (row_starts, codes), (weights, is_dirichlet, alpha, beta), (burn_in, n_draws) = cells, given, lengths
    n_components = weights.shape[2]
    labels = np.empty(longest_row(row_starts, start, stop), np.int64)
    counts, local = np.empty((2, n_components)), np.empty((2, n_components))
    shares = np.empty(n_components)
    stream = new_stream()
    for n in range(start, stop):
        seek(stream, words[0], words[1], np.uint64(0), 0)
        counts[:] = 0.0
        out[n] = 0.0
        first = row_starts[n]
        # The first sweep places cells one after the other, given those before.
        for sweep in range(burn_in + n_draws + 1):
            for p in range(first, row_starts[n + 1]):
                f, x = codes[p] >> 1, codes[p] & 1
                if sweep > 0:
                    counts[x, labels[p - first]] -= 1.0
                for k in range(n_components):
                    both = counts[0, k] + counts[1, k]
                    if is_dirichlet:
                        factor = alpha[k] + both
                    else:
                        prior = alpha[k] if x == 1 else beta[k]
                        factor = (prior + counts[x, k]) / (alpha[k] + beta[k] + both)
                    shares[k] = weights[x, f, k] * factor
                total = sum_of(shares)
                # If no component can produce the bit, all are equally likely.
                new = categorical(stream, shares, total) if total > 0.0 else 0
                labels[p - first] = new
                counts[x, new] += 1.0
            if sweep > burn_in:
                _means(counts, is_dirichlet, alpha, beta, local)
                for k in range(n_components):
                    out[n, k] += local[1, k]
        for k in range(n_components):
            out[n, k] /= n_draws
