"""Exact posterior moments of activations and allocations: a reference for Monte Carlo, and the E-step of exact EM."""

import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import psi

from partwise.errors import InvalidInputError
from partwise.likelihood.exact import LATTICE, SUBCOUNT, count_costs
from partwise.likelihood.kernels.lattice_moments import lattice_moment_rows
from partwise.likelihood.kernels.moments import TotalMoments, subcount_moment_rows
from partwise.likelihood.problem import Floats, Jobs, LikelihoodProblem

# Forward, forward again and backward passes over the lattice; all sub-counts instead of those the last pass needs.
_LATTICE_PASSES = 4.0
_SUBCOUNT_PASSES = 3.0


@dataclass(frozen=True)
class PosteriorMoments:
    """Exact expectations given the counts of each row.

    Attributes
    ----------
    activations, variances
        E[h_nk | x_n] and Var[h_nk | x_n]: rows x parts.
    log_activations
        E[log h_nk | x_n].
    totals
        E[L_nk | x_n], the expected number of tokens of each part.
    allocations
        E[c_nfk | x_n] for the stored nonzeros of X, row by row in ascending order of features: nonzeros x parts.
    log_likelihood
        log p(x_n).
    """

    activations: Floats
    variances: Floats
    log_activations: Floats
    totals: Floats
    allocations: Floats
    log_likelihood: Floats


def posterior_moments(
    X: Any, dictionary: Any, shape: Any, rate: Any, *, method: str = "auto", max_cost: float = 1e10, n_jobs: Jobs = 1
) -> PosteriorMoments:
    """Exact posterior moments of the activations and of the allocation of every count.

    Parameters
    ----------
    X, dictionary, shape, rate, n_jobs
        As for all estimators: see `partwise.likelihood`.
    method
        ``"lattice"``: forward and backward recursions over the totals. ``"subcount"``: derivatives of the recurrence
        over smaller counts, for few distinct features or many parts. ``"auto"``: the cheaper one for each row.
    max_cost
        Largest number of multiply-adds for one row, counted beforehand; about half a nanosecond each.

    Returns
    -------
    PosteriorMoments
        Means, variances and mean logarithms of activations, expected totals and allocations, log-likelihood.

    Raises
    ------
    InvalidInputError
        If a row would cost more than ``max_cost``, or has probability 0 and therefore no posterior.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.likelihood import posterior_moments
    >>> moments = posterior_moments([[2, 1, 0]], np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]]), 1.0, 0.5)
    >>> moments.allocations.sum(axis=1)
    array([2., 1.])
    """
    problem = LikelihoodProblem.build(X, dictionary, shape, rate, n_jobs=n_jobs)
    if method not in ("auto", "lattice", "subcount"):
        raise InvalidInputError(f"method must be 'auto', 'lattice' or 'subcount', got {method!r}.")
    if problem.cause:
        raise InvalidInputError(
            f"{problem.cause}, so it has no posterior: leave the feature out, or give it some weight in dictionary."
        )
    cost = count_costs(problem)
    cost = replace(cost, costs=cost.costs[:, [LATTICE, SUBCOUNT]] * (_LATTICE_PASSES, _SUBCOUNT_PASSES))
    chosen = cost.choose(method)
    cost.check(chosen, max_cost)
    n_rows, n_components = problem.n_rows, problem.dictionary.shape[1]
    means, variances, digammas = np.zeros((3, n_rows, n_components))
    moments = TotalMoments(np.zeros(n_rows), means, variances, digammas, np.zeros((problem.data.nnz, n_components)))
    tasks = cost.tasks(lattice_moment_rows, problem.model, np.flatnonzero(chosen == LATTICE), LATTICE, moments)
    tasks += cost.tasks(subcount_moment_rows, problem.model, np.flatnonzero(chosen == SUBCOUNT), SUBCOUNT, moments)
    problem.for_each(operator.call, tasks)
    lost = np.isnan(moments.log_values)
    if lost.any():
        n = int(np.argmax(lost))
        raise InvalidInputError(
            f"The exact moments of row {n} of X span more than the range of floating-point numbers: shorten the row."
        )
    mean = problem.shape + moments.means
    return PosteriorMoments(
        activations=mean * problem.inverse_rates,
        variances=(moments.variances + mean) * np.square(problem.inverse_rates),
        log_activations=psi(problem.shape + 1.0) + moments.digammas + np.log(problem.inverse_rates),
        totals=moments.means,
        allocations=moments.allocations,
        log_likelihood=problem.constants + moments.log_values,
    )
