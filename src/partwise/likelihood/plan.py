"""What exact computations of each row would cost, and how the rows are shared out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise.engines.blocks import row_blocks
from partwise.errors import InvalidInputError
from partwise.likelihood.kernels.costs import row_costs
from partwise.likelihood.kernels.rows import RowModel
from partwise.likelihood.problem import Problem

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

METHODS = ("lattice", "subcount", "quadrature")
LATTICE, SUBCOUNT, QUADRATURE = range(3)
MAX_COST = 1e10

_MOST_STATES = 2**27  # numbers in one buffer: 1 GiB
_PART_COST = 2**24  # about 10 ms
_LARGE_COST = 1e9  # a row that costs more is a part of its own, and sums of costs must not overflow


@dataclass(frozen=True)
class ExactCost:
    """What the exact likelihood of each row would cost, in multiply-adds of about half a nanosecond.

    Attributes
    ----------
    costs
        Rows x methods, in the order of ``METHODS``; inf where a row is beyond the memory or the range of a method.
    sizes
        Of each row: features, components and tokens whose allocation the zeros of the dictionary leave open, states of
        the lattice, sub-counts.
    shapes
        Of each row's open components, settled tokens included; then zeros.
    """

    costs: Floats
    sizes: Integers
    shapes: Floats

    @property
    def cheapest(self) -> Floats:
        """Cost of the cheapest method of each row."""
        return np.asarray(self.costs.min(axis=1), dtype=np.float64)

    @property
    def methods(self) -> list[str]:
        """Name of the cheapest method of each row."""
        return [METHODS[code] for code in self.costs.argmin(axis=1)]

    def choose(self, method: str) -> Integers:
        """Code of the method that is asked for, or of the cheapest, for each row."""
        if method == "auto":
            return np.asarray(self.costs.argmin(axis=1), dtype=np.int64)
        if method not in METHODS:
            raise InvalidInputError(f"method must be 'auto', {', '.join(map(repr, METHODS))}, got {method!r}.")
        return np.full(self.costs.shape[0], METHODS.index(method), dtype=np.int64)

    def check(self, chosen: Integers, max_cost: float) -> None:
        """Refuse the first row that costs too much by its chosen method."""
        needed = self.costs[np.arange(chosen.size), chosen]
        too_much = np.flatnonzero(~(needed <= max_cost))
        if too_much.size:
            n = int(too_much[0])
            row = f"Row {n} of X ({self.sizes[n, 2]} tokens among {self.sizes[n, 1]} components)"
            method = METHODS[chosen[n]]
            if needed[n] == np.inf:
                raise InvalidInputError(
                    f"{row} is beyond the memory or the range of numbers of {method}: let method be 'auto', or estimate"
                    " with partwise.likelihood.smc."
                )
            raise InvalidInputError(
                f"{row} would take {needed[n]:.2g} multiply-adds by {method}, above max_cost = {max_cost:.2g}: raise"
                " max_cost, or estimate with partwise.likelihood.smc."
            )

    def lattice_size(self, rows: Integers) -> tuple[int, int]:
        """Most open tokens and states of some rows."""
        return int(self.sizes[rows, 2].max()), int(self.sizes[rows, 3].max())

    def subcount_size(self, rows: Integers) -> tuple[int, int]:
        """Most open features and sub-counts of some rows."""
        return int(self.sizes[rows, 0].max()), int(self.sizes[rows, 4].max())

    def parts(self, rows: Integers, method: int) -> list[Integers]:
        """Cut rows into parts of about equal cost."""
        ends = np.cumsum(np.minimum(self.costs[rows, method], _LARGE_COST)).astype(np.int64)
        return [rows[start:stop] for start, stop in row_blocks(np.concatenate(([0], ends)), _PART_COST)]


def row_model(problem: Problem) -> RowModel:
    """The problem as the kernels of exact algorithms take it: counts in one type, so that they compile once."""
    indptr, indices, values, *model = problem.arrays
    return RowModel(indptr, indices, values.astype(np.int64), *model)


def count_costs(problem: Problem) -> ExactCost:
    """Costs of all methods for all rows of a problem."""
    n_rows, n_components = problem.n_rows, problem.dictionary.shape[1]
    cost = ExactCost(
        np.zeros((n_rows, len(METHODS))), np.zeros((n_rows, 5), dtype=np.int64), np.zeros((n_rows, n_components))
    )
    model = row_model(problem)

    def one(start: int, stop: int) -> None:
        block = slice(start, stop)
        row_costs(
            model, np.arange(start, stop), float(_MOST_STATES), cost.costs[block], cost.sizes[block], cost.shapes[block]
        )

    problem.for_each_block(one, row_blocks(problem.data.indptr))
    return cost
