"""Log probabilities of counts of labels, by tables of log-gamma differences."""

from __future__ import annotations

from partwise.kernels.arrays import Counts, Floats
from partwise.kernels.jit import kernel


@kernel
def sum_of_table(counts: Counts, table: Floats) -> float:
    """``table[counts].sum()``, row by row."""
    total = 0.0
    for n in range(counts.shape[0]):
        part = 0.0
        for k in range(counts.shape[1]):
            part += table[counts[n, k]]
        total += part
    return total


@kernel
def beta_terms(counts: Counts, one_table: Floats, zero_table: Floats, both_table: Floats) -> float:
    """``(one_table[counts[..., 1]] + zero_table[counts[..., 0]] - both_table[counts.sum(axis=-1)]).sum()``."""
    total = 0.0
    for n in range(counts.shape[0]):
        part = 0.0
        for k in range(counts.shape[1]):
            zeros, ones = counts[n, k, 0], counts[n, k, 1]
            part += one_table[ones] + zero_table[zeros] - both_table[zeros + ones]
        total += part
    return total
