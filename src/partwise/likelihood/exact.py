"""The exact marginal likelihood of rows of counts, by the cheapest of three polynomial algorithms."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from partwise.engines.blocks import row_blocks
from partwise.errors import InvalidInputError
from partwise.likelihood.kernels.jacobi import beta_rule
from partwise.likelihood.kernels.lattice import lattice_rows, wide_lattice_rows
from partwise.likelihood.kernels.quadrature import StickRules, quadrature_rows
from partwise.likelihood.kernels.rows import Integers, RowModel, row_costs
from partwise.likelihood.kernels.subcount import subcount_rows
from partwise.likelihood.problem import Floats, Jobs, LikelihoodProblem, LogLikelihood

METHODS = ("lattice", "subcount", "quadrature")
LATTICE, SUBCOUNT, QUADRATURE = range(3)

_MOST_STATES = 2**27  # numbers in one buffer: 1 GiB
_PART_COST = 2**24  # about 10 ms
_LARGE_COST = 1e9  # a more expensive row is processed alone, and sums of costs must not overflow


@dataclass(frozen=True)
class ExactCost:
    """The cost of the exact likelihood of each row, in multiply-adds of about half a nanosecond.

    Attributes
    ----------
    costs
        Rows x methods, in the order of ``METHODS``; inf if a row exceeds the memory or the range of a method.
    sizes
        For each row: features, parts and tokens whose allocation the zeros of the dictionary leave open, states of the
        lattice, sub-counts.
    shapes
        Shapes of each row's open parts, including settled tokens; then zeros.
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
        """Code of the requested method, or of the cheapest one, for each row."""
        if method == "auto":
            return np.asarray(self.costs.argmin(axis=1), dtype=np.int64)
        if method not in METHODS:
            raise InvalidInputError(f"method must be 'auto', {', '.join(map(repr, METHODS))}, got {method!r}.")
        return np.full(self.costs.shape[0], METHODS.index(method), dtype=np.int64)

    def check(self, chosen: Integers, max_cost: float) -> None:
        """Refuse the first row that costs too much with its chosen method."""
        needed = self.costs[np.arange(chosen.size), chosen]
        too_much = np.flatnonzero(~(needed <= max_cost))
        if too_much.size:
            n = int(too_much[0])
            row = f"Row {n} of X ({self.sizes[n, 2]} tokens among {self.sizes[n, 1]} parts)"
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
        """Call ``kernel(model, part, *sizes, out)`` on groups of rows with about equal cost.

        Sizes are the largest that a group needs: open tokens and states of the lattice; open features and sub-counts;
        or tokens and shapes, which rows that quadrature processes together have in common.
        """
        ends = np.cumsum(np.minimum(self.costs[rows, method], _LARGE_COST)).astype(np.int64)
        tasks: list[Callable[[], object]] = []
        for start, stop in row_blocks(np.concatenate(([0], ends)), _PART_COST):
            part = rows[start:stop]
            if method == QUADRATURE:
                n_components, n_tokens = self.sizes[part[0], 1:3]
                tasks.append(partial(kernel, model, part, int(n_tokens), self.shapes[part[0], :n_components], out))
            else:
                first, second = self.sizes[part][:, (2, 3) if method == LATTICE else (0, 4)].max(axis=0)
                tasks.append(partial(kernel, model, part, int(first), int(second), out))
        return tasks


def count_costs(problem: LikelihoodProblem) -> ExactCost:
    """Costs of all methods for all rows of a problem."""
    n_rows, n_components = problem.n_rows, problem.dictionary.shape[1]
    cost = ExactCost(
        np.zeros((n_rows, len(METHODS))), np.zeros((n_rows, 5), dtype=np.int64), np.zeros((n_rows, n_components))
    )

    def one(block: tuple[int, int]) -> None:
        own = slice(*block)
        found = cost.costs[own], cost.sizes[own], cost.shapes[own]
        row_costs(problem.model, np.arange(*block), float(_MOST_STATES), *found)

    problem.for_each(one, row_blocks(problem.data.indptr))
    return cost


def exact(
    X: Any, dictionary: Any, shape: Any, rate: Any, *, method: str = "auto", max_cost: float = 1e10, n_jobs: Jobs = 1
) -> LogLikelihood:
    """Exact log p(x) of each row, with the activations integrated out.

    The sum over all allocations of tokens to parts couples them only through the K totals of a row. So it takes
    polynomial time, not exponential time as in the papers. All terms of the three algorithms are positive: the relative
    error of p(x) is a few rounding errors per token.

    Parameters
    ----------
    X, dictionary, shape, rate, n_jobs
        As for all estimators: see `partwise.likelihood`.
    method
        ``"lattice"``: recursion over the totals. ``"subcount"``: recurrence over smaller counts, for few distinct
        features or many parts. ``"quadrature"``: Gauss rules on the mixing proportions, for few parts and
        long rows. ``"auto"``: the cheapest for each row.
    max_cost
        Largest number of multiply-adds for one row, counted beforehand; about half a nanosecond each.

    Returns
    -------
    LogLikelihood
        Values; standard errors are 0 and effective sample sizes infinite.

    Raises
    ------
    InvalidInputError
        If a row would cost more than ``max_cost``; the message names the cost.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.likelihood import exact
    >>> exact([[2, 1, 0]], np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]]), 1.0, 0.5).values.round(6)
    array([-4.510234])
    """
    problem = LikelihoodProblem.build(X, dictionary, shape, rate, n_jobs=n_jobs)
    cost = count_costs(problem)
    chosen = cost.choose(method)
    cost.check(chosen, max_cost)
    logs = exact_logs(problem, cost, chosen, np.arange(problem.n_rows))
    return problem.result(logs, np.zeros(problem.n_rows), np.full(problem.n_rows, np.inf))


def exact_cost(X: Any, dictionary: Any, shape: Any = 1.0, rate: Any = 1.0, *, n_jobs: Jobs = 1) -> ExactCost:
    """The cost of `exact` for each row, before it is run.

    Parameters
    ----------
    X, dictionary, shape, rate, n_jobs
        As for `exact`; shape and rate hardly matter.

    Returns
    -------
    ExactCost
        Costs of all methods, and which is the cheapest.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.likelihood import exact_cost
    >>> exact_cost([[2, 1, 0], [90, 80, 70]], np.ones((3, 5))).methods
    ['subcount', 'quadrature']
    """
    return count_costs(LikelihoodProblem.build(X, dictionary, shape, rate, n_jobs=n_jobs))


def exact_logs(problem: LikelihoodProblem, cost: ExactCost, chosen: Integers, rows: Integers) -> Floats:
    """Log T[Π_f (q_f·y)^x_f] of some rows by their chosen methods, 0 for other rows: the input of `result`."""
    out = np.zeros(problem.n_rows)
    # A row without open tokens needs no method; the lattice kernel returns it unchanged.
    methods = np.where(cost.sizes[rows, 2] == 0, LATTICE, chosen[rows])
    tasks = cost.tasks(_lattice, problem.model, rows[methods == LATTICE], LATTICE, out)
    tasks += cost.tasks(subcount_rows, problem.model, rows[methods == SUBCOUNT], SUBCOUNT, out)
    alike = rows[methods == QUADRATURE]
    if alike.size:
        # Groups of rows that share their quadrature rules. Most columns are the same in all rows: they need no sorting.
        keys = np.column_stack((cost.sizes[alike, 2] // 2, cost.shapes[alike]))
        keys = keys[:, (keys != keys[0]).any(axis=0)]
        order = np.lexsort(keys.T[::-1]) if keys.size else np.arange(alike.size)
        for some in np.split(alike[order], np.flatnonzero((np.diff(keys[order], axis=0) != 0).any(axis=1)) + 1):
            tasks += cost.tasks(_quadrature, problem.model, some, QUADRATURE, out)
    problem.for_each(operator.call, tasks)
    return out


def _lattice(model: RowModel, rows: Integers, most_tokens: int, most_states: int, out: Floats) -> None:
    lattice_rows(model, rows, most_tokens, most_states, out)
    wide = rows[np.isnan(out[rows])]
    if wide.size:
        wide_lattice_rows(model, wide, most_tokens, most_states, out)


def _quadrature(model: RowModel, rows: Integers, n_tokens: int, shapes: Floats, out: Floats) -> None:
    """Rows that share their quadrature rules, which are exact for their number of tokens: one rule per stick."""
    rules = [
        beta_rule(n_tokens // 2 + 1, float(shapes[k]), float(shapes[k + 1 :].sum())) for k in range(shapes.size - 1)
    ]
    quadrature_rows(model, rows, StickRules(*(np.stack(arrays) for arrays in zip(*rules, strict=True))), out)
