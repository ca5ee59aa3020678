"""Smallest values of factors: logarithms end at 0, and multiplicative updates cannot leave it."""

from __future__ import annotations

from dataclasses import dataclass

from partwise.core.data import SparseData
from partwise.kernels.arrays import Floats

# Relative to what independence of rows and columns would give: factors never reach 0 where there are counts.
FLOOR = 1e-10


@dataclass(frozen=True)
class Floors:
    """Smallest activation in each row, and smallest dictionary entry in each feature; 0 where all counts are 0."""

    activations: Floats
    dictionary: Floats

    @classmethod
    def of(cls, data: SparseData, n_components: int) -> Floors:
        """A dictionary column sums to about 1, so a row's activations sum to about its total."""
        total = data.total if data.total > 0 else 1.0
        return cls(activation_floor(n_components) * data.row_sums, FLOOR / total * data.column_sums)


def activation_floor(n_components: int) -> float:
    """The smallest activation, relative to a row's total."""
    return FLOOR / n_components
