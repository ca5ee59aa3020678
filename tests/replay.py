"""The random numbers of a kernel, from NumPy's own Philox: a sweep can be replayed in plain Python, draw by draw."""

from __future__ import annotations

import numpy as np


class Uniforms:
    """The uniform numbers that a kernel gets after ``seek(stream, *words, row)``."""

    def __init__(self, words: tuple[np.uint64, np.uint64, np.uint64], row: int) -> None:
        seed, stage_chain, iteration = map(int, words)
        before = ((row << 64) + (iteration << 128) - 1) % 2**256
        self._bits = np.random.Philox(key=seed + (stage_chain << 64), counter=before)

    def next(self) -> float:
        return float(max(int(self._bits.random_raw()) >> 11, 0.5)) / 2**53


def choice(weights: np.ndarray, uniform: float) -> int:
    """The first place where the running sum of the weights exceeds a share of the whole."""
    return int(np.searchsorted(np.cumsum(weights), uniform * weights.sum(), side="right"))
