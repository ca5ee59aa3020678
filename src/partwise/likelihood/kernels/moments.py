"""Posterior moments of activations and allocations: what kernels give, and what is settled without them."""

from __future__ import annotations

from typing import NamedTuple

from partwise.kernels.inner import inner_kernel
from partwise.likelihood.kernels.rows import Floats, RowBuffers, RowModel


class TotalMoments(NamedTuple):
    """Posterior moments of each row.

    Attributes
    ----------
    log_values
        log T[Π_f (q_f·y)^x_f]; NaN where the states span more than the range of doubles.
    means, variances
        Of the totals L_nk: rows x components.
    digammas
        E[ψ(a_k + L_nk) | x] - ψ(a_k + 1).
    allocations
        E[c_nfk | x]: stored entries x components.
    """

    log_values: Floats
    means: Floats
    variances: Floats
    digammas: Floats
    allocations: Floats


@inner_kernel
def close_row(model: RowModel, n: int, row: RowBuffers, out: TotalMoments) -> None:
    """Fill in a gathered row as if nothing were open: settled tokens, and zeros for the others."""
    n_components = model.dictionary.shape[1]
    start = model.indptr[n]
    for position in range(start, model.indptr[n + 1]):
        for k in range(n_components):
            out.allocations[position, k] = 0.0
        if row.owners[position - start] >= 0:
            out.allocations[position, row.owners[position - start]] = model.values[position]
    for k in range(n_components):
        out.means[n, k] = row.settled[k]
        out.variances[n, k] = 0.0
        out.digammas[n, k] = 0.0 if row.settled[k] > 0 else -1.0 / model.shape[k]
        for i in range(1, row.settled[k]):
            out.digammas[n, k] += 1.0 / (model.shape[k] + i)


@inner_kernel
def store_total(
    n: int, component: int, shape: float, settled: int, n_tokens: int, marginals: Floats, row: int, out: TotalMoments
) -> None:
    """TotalMoments of the total settled + c, where c has probabilities ``marginals[row]`` up to a factor."""
    total, mean, digamma = 0.0, 0.0, 0.0
    difference = out.digammas[n, component]
    for c in range(n_tokens + 1):
        total += marginals[row, c]
        mean += marginals[row, c] * c
        digamma += marginals[row, c] * difference
        # Not by adding 1 / a to -1 / a, which cancels at small shapes.
        difference = difference + 1.0 / (shape + settled + c) if settled + c > 0 else 0.0
    mean /= total
    variance = 0.0
    for c in range(n_tokens + 1):
        variance += marginals[row, c] * (c - mean) * (c - mean)
    out.means[n, component] = settled + mean
    out.variances[n, component] = variance / total
    out.digammas[n, component] = digamma / total
