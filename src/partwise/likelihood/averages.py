"""The shell of estimators that average independent draws: an estimator is its kernel, its settings and one call."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from partwise.engines.blocks import first_tokens, row_blocks
from partwise.errors import InvalidInputError
from partwise.likelihood.problem import LikelihoodProblem
from partwise.likelihood.result import Floats, log_mean

_TOKENS_AT_ONCE = 4096
_ROWS_AT_ONCE = 1024


def average_draws(
    problem: LikelihoodProblem, stage: str, n_draws: int, kernel: Callable[..., object], *settings: object
) -> tuple[Floats, Floats, Floats]:
    """Log mean, standard error and effective sample size of each row; draws of all rows never exist at once.

    Parameters
    ----------
    problem
        The rows.
    stage
        The estimator's name, by which its random numbers differ from those of others.
    n_draws
        Draws for each row, at least 2: the standard error comes from their spread.
    kernel
        ``kernel(problem.model, *settings, words, start, stop, logs)`` writes the log of each draw's estimate for these
        rows to ``logs`` (rows x draws), with the random numbers that ``words`` address.
    settings
        The estimator's own.
    """
    require_at_least(2, n_draws=n_draws)
    words = problem.key.for_stage(stage).words
    values, errors, ess = np.empty((3, problem.n_rows))

    def one(start: int, stop: int) -> None:
        logs = np.empty((stop - start, n_draws))
        kernel(problem.model, *settings, words, start, stop, logs)
        values[start:stop], errors[start:stop], ess[start:stop] = log_mean(logs)

    problem.for_each_block(one, row_blocks(first_tokens(problem.data), _TOKENS_AT_ONCE, _ROWS_AT_ONCE))
    return values, errors, ess


def require_at_least(least: int, **settings: int) -> None:
    """Refuse settings below the least that makes sense."""
    for name, value in settings.items():
        if value < least:
            raise InvalidInputError(f"{name} must be at least {least}, got {value}.")
