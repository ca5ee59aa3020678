"""What exact computations of each row would cost, and how the rows are shared out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from partwise.engines.blocks import row_blocks
from partwise.errors import InvalidInputError
from partwise.likelihood.kernels.costs import row_costs
from partwise.likelihood.kernels.rows import Integers, RowModel
from partwise.likelihood.problem import LikelihoodProblem
from partwise.likelihood.result import Floats

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

    def tasks(
        self, kernel: Callable[..., object], model: RowModel, rows: Integers, method: int, out: Any
    ) -> list[Callable[[], object]]:
        """Calls ``kernel(model, part, *sizes, out)`` on parts of the rows of about equal cost.

        Sizes are what a part needs most of: open tokens and states of the lattice; open features and sub-counts; or
        tokens and shapes, which rows that quadrature takes together have in common.
        """
        ends = np.cumsum(np.minimum(self.costs[rows, method], _LARGE_COST)).astype(np.int64)
        parts = [rows[start:stop] for start, stop in row_blocks(np.concatenate(([0], ends)), _PART_COST)]
        return [partial(kernel, model, part, *self._sizes(part, method), out) for part in parts]

    def _sizes(self, rows: Integers, method: int) -> tuple[int, Any]:
        if method == QUADRATURE:
            n_components, n_tokens = self.sizes[rows[0], 1:3]
            return int(n_tokens), self.shapes[rows[0], :n_components]
        columns = (2, 3) if method == LATTICE else (0, 4)
        first, second = self.sizes[rows][:, columns].max(axis=0)
        return int(first), int(second)


def count_costs(problem: LikelihoodProblem) -> ExactCost:
    """Costs of all methods for all rows of a problem."""
    n_rows, n_components = problem.n_rows, problem.dictionary.shape[1]
    cost = ExactCost(
        np.zeros((n_rows, len(METHODS))), np.zeros((n_rows, 5), dtype=np.int64), np.zeros((n_rows, n_components))
    )

    def one(start: int, stop: int) -> None:
        rows, block = np.arange(start, stop), slice(start, stop)
        found = cost.costs[block], cost.sizes[block], cost.shapes[block]
        row_costs(problem.model, rows, float(_MOST_STATES), *found)

    problem.for_each_block(one, row_blocks(problem.data.indptr))
    return cost
