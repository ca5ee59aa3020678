"""Annealed importance sampling over tokens, from a strong prior to the model's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.core.keys import RandomState
from partwise.errors import InvalidInputError
from partwise.kernels.streams import new_stream
from partwise.likelihood.averages import average_draws
from partwise.likelihood.kernels.annealed import N_LANES, annealed_rows, new_runs
from partwise.likelihood.kernels.rows import RowModel, row_buffers
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
    there is no such constraint. The path leads from a strong prior, with its mean where collapsed variational inference
    expects the row's tokens to belong, to the model's own: shapes fall by equal ratios, with a collapsed Gibbs sweep at
    each step. (A path from equally good components to the row's own is tens of nats low at 1,000 tokens.) Unbiased on
    the scale of the likelihood; runs are independent, so the standard error is that of a plain mean.

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
        Steps of the path, each but the last with one Gibbs sweep.
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
    n_lanes = -(-n_draws // -(-n_draws // N_LANES))
    problem.check_labels("annealed", problem.data.row_sums, n_lanes)
    n_runs = -(-n_draws // n_lanes) * n_lanes

    def fill(start: int, stop: int, logs: Floats) -> None:
        rows = np.arange(start, stop)
        row = row_buffers(problem.data.indptr, rows, problem.shape.size)
        longest = int(problem.data.row_sums[start:stop].max())
        room = new_runs(row.counts.size, problem.shape.size, longest, n_lanes)
        runs = np.empty((rows.size, n_runs))
        annealed_rows(model, rows, n_temperatures, *words, new_stream(), row, room, runs)
        logs[:] = runs[:, :n_draws]

    return problem.result(*average_draws(problem, n_draws, fill))
