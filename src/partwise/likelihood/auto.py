"""The likelihood without choices: exact where that is affordable, else estimated until the error is small enough."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.special import ndtr, stdtrit

from partwise.core.keys import RandomState
from partwise.errors import InaccurateWarning, InvalidInputError
from partwise.likelihood.exact import count_costs, exact_logs
from partwise.likelihood.kernels.rows import Integers
from partwise.likelihood.kernels.smc import OWN_LOOKAHEAD, OWN_STAGES, ParticleSettings
from partwise.likelihood.problem import Floats, LikelihoodProblem, LogLikelihood
from partwise.likelihood.smc import RESAMPLE_BELOW, smc_islands

MAX_COST = 1e7
STD_ERROR = 0.1
MAX_DRAWS = 2**16

_N_PARTICLES = 32
# Enough for most rows of 1,000 tokens. Fewer know too little of their own spread, and rows would stop too early.
_FIRST_ISLANDS = 12
# One for the mean; the others because rows stop when their error looks small: those that are too small are kept.
_LOST_FREEDOM = 3
_MOST_GROWTH = 4


def auto(
    X: Any,
    dictionary: Any,
    shape: Any,
    rate: Any,
    *,
    rng: RandomState = None,
    std_error: float = STD_ERROR,
    max_cost: float = MAX_COST,
    max_draws: int = MAX_DRAWS,
    n_jobs: int | None = 1,
    engine: Any = None,
) -> LogLikelihood:
    """Log p(x) of each row: exact where affordable, else by `smc` with as many particles as it takes.

    Parameters
    ----------
    X, dictionary, shape, rate, rng, n_jobs
        As for all estimators: see `partwise.likelihood`.
    std_error
        Standard error, in nats, that is good enough for a row; 0 = none is, so all particles are used.
    max_cost
        Most multiply-adds that the exact value of a row may take (1e7 are about 5 ms); 0 = never exact.
    max_draws
        Most particles for a row. Where they do not suffice, a warning names the first such row.
    engine
        None: threads; or the workers of a Dask cluster, as for the estimators. The result is the same.

    Returns
    -------
    LogLikelihood
        Values, standard errors (0 where exact), effective sample sizes (infinite where exact); one number a row. Two
        standard errors to either side hold the true value for 95% of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.likelihood import auto
    >>> result = auto([[2, 1, 0]], np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]]), 1.0, 0.5)
    >>> result.values.round(6), result.std_errors
    (array([-4.510234]), array([0.]))
    """
    if not std_error >= 0.0 or not max_cost >= 0.0 or max_draws < _FIRST_ISLANDS * _N_PARTICLES:
        raise InvalidInputError(
            f"std_error and max_cost must not be negative, and max_draws at least {_FIRST_ISLANDS * _N_PARTICLES},"
            f" got {std_error}, {max_cost} and {max_draws}."
        )
    problem = LikelihoodProblem.build(X, dictionary, shape, rate, rng=rng, n_jobs=n_jobs, engine=engine)
    logs, errors, ess = problem.estimated(_estimate, std_error, max_cost, max_draws)
    missed = np.flatnonzero(~(errors <= std_error))
    if missed.size and std_error > 0.0:
        n = int(missed[0])
        warnings.warn(
            f"Row {n} of X{'' if missed.size == 1 else f' and {missed.size - 1} more'} reached a standard error of"
            f" {errors[n]:.2g} nats with max_draws = {max_draws}, not the {std_error:g} that was asked for: raise"
            " max_draws or std_error.",
            InaccurateWarning,
            stacklevel=2,
        )
    return problem.result(logs, errors, ess)


def _estimate(
    problem: LikelihoodProblem, std_error: float, max_cost: float, max_draws: int
) -> tuple[Floats, Floats, Floats]:
    """Logarithms, standard errors and effective sample sizes, each row on its own."""
    cost = count_costs(problem)
    affordable = cost.cheapest <= max_cost
    logs = exact_logs(problem, cost, cost.choose("auto"), np.flatnonzero(affordable))
    errors, ess = np.zeros(problem.n_rows), np.full(problem.n_rows, np.inf)
    rows = np.flatnonzero(~affordable)
    if rows.size:
        logs[rows], errors[rows], ess[rows] = _grow(problem, rows, std_error, max_draws)
    return logs, errors, ess


def _grow(
    problem: LikelihoodProblem, rows: Integers, std_error: float, max_draws: int
) -> tuple[Floats, Floats, Floats]:
    """Add islands to each row until its standard error is small enough; a row's number depends on no other row."""
    settings = ParticleSettings(_N_PARTICLES, OWN_STAGES, OWN_LOOKAHEAD, RESAMPLE_BELOW)
    most = max_draws // (_FIRST_ISLANDS * _N_PARTICLES) * _FIRST_ISLANDS
    done = np.zeros(rows.size, dtype=np.int64)
    wanted = np.full(rows.size, _FIRST_ISLANDS)
    # Sums of the islands' estimates and of their squares, in units of the first.
    units, sums, squares, ess = np.zeros((4, rows.size))
    while (active := np.flatnonzero(wanted > done)).size:
        # Rows that want the same islands next are worked on together.
        for first, last in np.unique(np.column_stack((done[active], wanted[active])), axis=0):
            group = active[(done[active] == first) & (wanted[active] == last)]
            logs, sizes = smc_islands(problem, rows[group], last - first, settings, first_island=first)
            if first == 0:
                units[group] = logs.max(axis=1)
            terms = np.exp(logs - units[group, None])
            sums[group] += terms.sum(axis=1)
            squares[group] += np.square(terms).sum(axis=1)
            ess[group] += sizes.sum(axis=1)
        done[active] = wanted[active]
        errors = _relative_errors(done, sums, squares)
        growth = np.clip(errors / std_error, 1.0, _MOST_GROWTH) ** 2 if std_error > 0.0 else _MOST_GROWTH**2
        needed = np.ceil(done * growth / _FIRST_ISLANDS) * _FIRST_ISLANDS
        wanted = np.where(errors > std_error, np.minimum(needed, most), done).astype(np.int64)
    return units + np.log(sums / done), errors, ess


def _relative_errors(n_terms: Integers, sums: Floats, squares: Floats) -> Floats:
    """Standard error of the mean of so many terms, over that mean.

    Few terms know their own spread badly: errors are widened, by 16% for 12 terms and 6% for 24, so that two of them
    cover as many estimates as two standard deviations of a normal distribution do (Student's t).
    """
    spread = n_terms * squares / np.square(sums) - 1.0
    widened = stdtrit(n_terms - _LOST_FREEDOM, ndtr(2.0)) / 2.0
    return np.asarray(np.sqrt(np.maximum(spread, 0.0) / (n_terms - 1)) * widened)
