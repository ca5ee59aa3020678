"""The exact marginal likelihood of rows of counts, by the cheapest of three polynomial algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.likelihood.kernels.jacobi import beta_rule
from partwise.likelihood.kernels.lattice import lattice_rows
from partwise.likelihood.kernels.quadrature import StickRules, quadrature_rows
from partwise.likelihood.kernels.rows import Integers, RowModel
from partwise.likelihood.kernels.subcount import subcount_rows
from partwise.likelihood.kernels.wide_lattice import wide_lattice_rows
from partwise.likelihood.plan import LATTICE, MAX_COST, QUADRATURE, SUBCOUNT, ExactCost, count_costs
from partwise.likelihood.problem import LikelihoodProblem
from partwise.likelihood.result import Floats, LogLikelihood


def exact(
    X: Any,
    dictionary: Any,
    shape: Any,
    rate: Any,
    *,
    method: str = "auto",
    max_cost: float = MAX_COST,
    n_jobs: int | None = 1,
) -> LogLikelihood:
    """Exact log p(x) of each row, with the activations integrated out.

    The sum over all allocations of tokens to components couples them only through the K totals of a row, so it is a
    polynomial computation (MATH 1.1), not the exponential one of the papers. All terms of the three algorithms are
    positive: the relative error of p(x) is a few rounding errors a token.

    Parameters
    ----------
    X, dictionary, shape, rate, n_jobs
        As for all estimators: see `partwise.likelihood`.
    method
        ``"lattice"``: recursion over the totals; ``"subcount"``: recurrence over smaller counts, for few distinct
        features or many components; ``"quadrature"``: Gauss rules on the mixing proportions, for few components and
        long rows; ``"auto"``: the cheapest for each row.
    max_cost
        Most multiply-adds for one row, counted beforehand; half a nanosecond each, roughly.

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


def exact_cost(X: Any, dictionary: Any, shape: Any = 1.0, rate: Any = 1.0, *, n_jobs: int | None = 1) -> ExactCost:
    """What `exact` would cost for each row, before it is run.

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
    """Log T[Π_f (q_f·y)^x_f] of some rows by their chosen methods, 0 for other rows: what `result` takes."""
    out = np.zeros(problem.n_rows)
    # A row without open tokens needs none of them; the lattice kernel returns it as it is.
    methods = np.where(cost.sizes[rows, 2] == 0, LATTICE, chosen[rows])
    tasks = cost.tasks(_lattice, problem.model, rows[methods == LATTICE], LATTICE, out)
    tasks += cost.tasks(subcount_rows, problem.model, rows[methods == SUBCOUNT], SUBCOUNT, out)
    for group in _alike(rows[methods == QUADRATURE], cost):
        tasks += cost.tasks(_quadrature, problem.model, group, QUADRATURE, out)
    problem.engine.for_each(lambda task: task(), tasks)
    return out


def _lattice(model: RowModel, rows: Integers, most_tokens: int, most_states: int, out: Floats) -> None:
    lattice_rows(model, rows, most_tokens, most_states, out)
    wide = rows[np.isnan(out[rows])]
    if wide.size:
        wide_lattice_rows(model, wide, most_tokens, most_states, out)


def _quadrature(model: RowModel, rows: Integers, n_tokens: int, shapes: Floats, out: Floats) -> None:
    """Rows that share their rules, which are exact for their number of tokens: one rule a stick."""
    rules = [
        beta_rule(n_tokens // 2 + 1, float(shapes[k]), float(shapes[k + 1 :].sum())) for k in range(shapes.size - 1)
    ]
    quadrature_rows(model, rows, StickRules(*(np.stack(arrays) for arrays in zip(*rules, strict=True))), out)


def _alike(rows: Integers, cost: ExactCost) -> list[Integers]:
    """Group rows that share their rules."""
    if rows.size == 0:
        return []
    keys = np.column_stack((cost.sizes[rows, 2] // 2, cost.shapes[rows]))
    _, group = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(group, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(group[order])) + 1)
