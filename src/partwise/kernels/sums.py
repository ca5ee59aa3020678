"""Sums over components, the length of the longest row, and the largest entries of each row of a dense block.

Sums are computed in loops that store nothing. If a loop also stores, the compiler checks at run time whether arrays
overlap, and runs one of two loops that add in different orders. The check depends on the addresses of the arrays, so
the last bits of a sum could differ between threads.
"""

import math

from partwise.kernels.arrays import Counts, Floats, Indices, LongCounts, Numbers, Starts
from partwise.kernels.jit import inline_kernel, inner_kernel, kernel


@inline_kernel
def sum_of(weights: Numbers) -> float:
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


@kernel
def largest_of_rows(values: Floats, indptr: Starts, indices: Indices, positions: LongCounts, found: Floats) -> None:
    """``positions[:] = np.argsort(-values, axis=1, kind="stable")[:, :n]``, without the cells of a CSR pattern.

    ``values`` is overwritten. If a row has too few cells, ``positions`` is -1 and ``found`` is NaN for the rest.
    """
    n_wanted = positions.shape[1]
    for row in range(values.shape[0]):
        for cell in range(indptr[row], indptr[row + 1]):
            values[row, indices[cell]] = -math.inf
        filled = 0
        for column in range(values.shape[1]):
            value = values[row, column]
            if value == -math.inf or (filled == n_wanted and not value > found[row, n_wanted - 1]):
                continue
            place = filled if filled < n_wanted else n_wanted - 1
            while place > 0 and value > found[row, place - 1]:
                found[row, place], positions[row, place] = found[row, place - 1], positions[row, place - 1]
                place -= 1
            found[row, place], positions[row, place] = value, column
            filled = min(filled + 1, n_wanted)
        for place in range(filled, n_wanted):
            found[row, place], positions[row, place] = math.nan, -1


@kernel
def count_values(counts: Counts, first: int, found: LongCounts) -> None:
    """``np.add.at(found, (k, counts[n, first + k]), 1)`` for all rows n with a positive count, and all k."""
    for n in range(counts.shape[0]):
        for k in range(found.shape[0]):
            if counts[n, first + k] > 0:
                found[k, counts[n, first + k]] += 1
