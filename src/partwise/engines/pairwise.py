"""NumPy's sum of a long array, from parts of it that are in different places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# NumPy sums up to so many numbers in one loop, and halves what is longer, the left half a multiple of eight.
_LOOP, _LANES = 128, 8

Part = tuple[dict[tuple[int, int], Any], list[tuple[int, NDArray[Any]]]]
"""Sums of whole branches, by where these begin and end; and numbers of loops of which a part has only some."""


@dataclass(frozen=True)
class PairwiseSum:
    """The sum of ``n`` numbers in the tree in which NumPy takes it, to the bit.

    Examples
    --------
    >>> numbers = np.random.default_rng(0).normal(size=1000)
    >>> plan = PairwiseSum(1000)
    >>> parts = [plan.part(numbers[:333], 0), plan.part(numbers[333:], 333)]
    >>> bool(plan.total(parts) == numbers.sum())
    True
    """

    n: int

    def part(self, numbers: NDArray[Any], first: int) -> Part:
        """What a part of the numbers, from the position ``first`` on, gives to the sum."""
        last = first + numbers.size
        sums: dict[tuple[int, int], Any] = {}
        rest: list[tuple[int, NDArray[Any]]] = []
        waiting = [(0, self.n)]
        while waiting:
            start, stop = waiting.pop()
            if stop <= first or start >= last:
                continue
            if first <= start and stop <= last:
                sums[start, stop] = numbers[start - first : stop - first].sum()
            elif stop - start <= _LOOP:
                begin = max(start, first)
                rest.append((begin, numbers[begin - first : min(stop, last) - first].copy()))
            else:
                middle = _middle(start, stop)
                waiting += [(start, middle), (middle, stop)]
        return sums, rest

    def total(self, parts: Sequence[Part]) -> Any:
        """The sum, from all parts."""
        sums = {place: value for found, _ in parts for place, value in found.items()}
        rest = sorted((piece for _, found in parts for piece in found), key=lambda piece: piece[0])
        return self._sum(0, self.n, sums, rest)

    def _sum(self, start: int, stop: int, sums: dict[tuple[int, int], Any], rest: list[tuple[int, Any]]) -> Any:
        if (start, stop) in sums:
            return sums[start, stop]
        if stop - start <= _LOOP:
            return np.concatenate([numbers for begin, numbers in rest if start <= begin < stop]).sum()
        middle = _middle(start, stop)
        return self._sum(start, middle, sums, rest) + self._sum(middle, stop, sums, rest)


def _middle(start: int, stop: int) -> int:
    half = (stop - start) // 2
    return start + half - half % _LANES
