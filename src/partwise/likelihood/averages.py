"""Averages over draws on the scale of the likelihood, block by block, so that draws of all rows never exist at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from partwise.engines.blocks import first_tokens, row_blocks
from partwise.likelihood.problem import Floats, Problem
from partwise.likelihood.result import log_mean

_TOKENS_AT_ONCE = 4096
_ROWS_AT_ONCE = 1024


def average_draws(
    problem: Problem, n_draws: int, fill: Callable[[int, int, Floats], object]
) -> tuple[Floats, Floats, Floats]:
    """Log mean, standard error and effective sample size of each row.

    Parameters
    ----------
    problem
        The rows.
    n_draws
        Draws for each row.
    fill
        ``fill(start, stop, logs)`` writes the log of each draw's estimate for these rows: rows x draws.
    """
    values, errors, ess = np.empty((3, problem.n_rows))

    def one(start: int, stop: int) -> None:
        logs = np.empty((stop - start, n_draws))
        fill(start, stop, logs)
        values[start:stop], errors[start:stop], ess[start:stop] = log_mean(logs)

    problem.for_each_block(one, row_blocks(first_tokens(problem.data), _TOKENS_AT_ONCE, _ROWS_AT_ONCE))
    return values, errors, ess
