"""Annealed importance sampling over tokens, from the prior to the posterior."""

from __future__ import annotations

from typing import Any

from partwise.core.keys import RandomState
from partwise.errors import InvalidInputError
from partwise.likelihood.averages import average_draws
from partwise.likelihood.kernels.annealed import annealed_draws
from partwise.likelihood.kernels.rows import RowModel
from partwise.likelihood.problem import Floats, Problem
from partwise.likelihood.result import LogLikelihood


def annealed(
    X: Any,
    dictionary: Any,
    shape: Any,
    rate: Any,
    *,
    rng: RandomState = None,
    n_draws: int = 100,
    n_temperatures: int = 100,
    n_jobs: int | None = 1,
) -> LogLikelihood:
    """Estimate log p(x) of each row by annealed importance sampling (Neal 2001) on the allocations of tokens.

    The left-to-right paper rules annealing out, since counts fix the sums of their allocations; over single tokens
    there is no such constraint. The path leads from tokens that all components explain equally well to the row's own.
    Unbiased on the scale of the likelihood; runs are independent, so the standard error is that of a plain mean.

    Parameters
    ----------
    X
        Rows of counts, of any accepted kind; missing cells are left out.
    dictionary
        Features x components.
    shape, rate
        Of the gamma prior of activations: numbers, or one a component.
    rng
        Seed: int, Generator or None. Each row has a stream of its own.
    n_draws
        Annealed runs for each row, at least 2.
    n_temperatures
        Steps of the path, each with one Gibbs sweep.
    n_jobs
        Threads; the result is the same for any number.

    Returns
    -------
    LogLikelihood
        Values, standard errors, effective sample sizes; one number a row.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.likelihood import annealed
    >>> result = annealed([[2, 1, 0]], np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]]), 1.0, 0.5, rng=0)
    >>> bool(abs(result.values[0] + 4.51) < 0.05)
    True
    """
    if n_draws < 2 or n_temperatures < 1:
        raise InvalidInputError(
            f"n_draws must be at least 2 and n_temperatures at least 1, got {n_draws} and {n_temperatures}."
        )
    problem = Problem.build(X, dictionary, shape, rate, rng=rng, n_jobs=n_jobs)
    words = problem.key.for_stage("annealed").words
    model = RowModel(*problem.arrays)

    def fill(start: int, stop: int, logs: Floats) -> None:
        annealed_draws(model, n_temperatures, *words, start, stop, logs)

    return problem.result(*average_draws(problem, n_draws, fill))
