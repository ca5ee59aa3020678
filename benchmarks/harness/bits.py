"""Published bits for the benchmarks, samples x features, and a split of their cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bits:
    """Bits, and the same with the held-out cells of the authors' first split missing."""

    name: str
    whole: Floats
    train: Floats

    @property
    def held_out(self) -> NDArray[np.bool_]:
        return np.isnan(self.train)

    def perplexity(self, probabilities: Any) -> float:
        """Mean negative log-likelihood of a held-out cell, certainty kept a billionth from 0 and 1."""
        return -mean_log_likelihood(self.whole[self.held_out], np.asarray(probabilities)[self.held_out])


def mean_log_likelihood(bits: Floats, probabilities: Floats) -> float:
    kept = np.clip(probabilities, 1e-9, 1 - 1e-9)
    return float(np.where(bits == 1, np.log(kept), np.log1p(-kept)).mean())


def published_bits(name: str) -> Bits | str:
    """The data, or why they cannot be had."""
    from partwise.datasets import data_folder, load_binary
    from partwise.errors import PartwiseError

    try:
        whole = np.asarray(load_binary(name, transpose=True).matrix, dtype=np.float64)
        path = data_folder() / "nbmf" / "masks" / f"{name}_mask1.csv.gz"
        row, column, is_test = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64, unpack=True)
    except (PartwiseError, OSError) as error:
        return str(error)
    train = whole.copy()
    train[column[is_test == 1], row[is_test == 1]] = np.nan
    return Bits(name, whole, train)
