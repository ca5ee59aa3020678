"""Sums over components, in loops that store nothing, and the length of the longest row.

In a loop that also stores, the compiler asks at run time whether the arrays overlap, and takes one of two loops that
add in different orders; how it asks depends on the addresses of the arrays, so that the same sum could have other bits
on another thread.
"""

from __future__ import annotations

from partwise.kernels.arrays import Floats, Starts
from partwise.kernels.jit import inline_kernel, inner_kernel


@inline_kernel
def sum_of(weights: Floats) -> float:
    """``weights.sum()``."""
    total = 0.0
    for k in range(weights.size):
        total += weights[k]
    return total


@inline_kernel
def inner_product(row: Floats, column: Floats) -> float:
    """``row @ column``."""
    total = 0.0
    for k in range(row.size):
        total += row[k] * column[k]
    return total


@inner_kernel
def longest_row(starts: Starts, start: int, stop: int) -> int:
    """``np.diff(starts[start : stop + 1]).max(initial=0)``."""
    longest = 0
    for n in range(start, stop):
        longest = max(longest, starts[n + 1] - starts[n])
    return longest
