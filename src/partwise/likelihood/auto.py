"""The likelihood without choices: exact if affordable, else estimated until the standard error is small enough."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.keys import RandomState
from partwise.errors import ImpossibleRowsWarning, InaccurateWarning, InvalidInputError
from partwise.kernels.arrays import Triple
from partwise.likelihood.averages import MOST_PARETO_K, log_mean, log_mean_error
from partwise.likelihood.exact import count_costs, exact_logs
from partwise.likelihood.importance import importance_draws, importance_seconds, summary_of_draws
from partwise.likelihood.kernels.lanes import N_LANES
from partwise.likelihood.kernels.rows import Integers
from partwise.likelihood.kernels.smc import OWN_LOOKAHEAD, OWN_STAGES, ParticleSettings
from partwise.likelihood.problem import LikelihoodProblem, LogLikelihood
from partwise.likelihood.smc import RESAMPLE_BELOW, smc_islands, smc_seconds

MAX_COST = 1e7
STD_ERROR = 0.1
MAX_DRAWS = 2**16

_N_PARTICLES = 32
# Enough for most rows of 1,000 tokens. With fewer, the spread is poorly known, and rows would stop too early.
_FIRST_ISLANDS = 12
_ISLANDS_AT_ONCE = N_LANES // _N_PARTICLES
_MOST_ADDED = 2.0  # times as many islands
# One for the mean. The others, because rows stop when their error looks small, which keeps errors that are too small.
_LOST_FREEDOM = 3
_MOST_GROWTH = 4
_FIRST_DRAWS = 1024
# First draws are trusted up to this tail index of their weights; the target error is the requested one over this.
_LIGHT_TAIL, _MARGIN = 0.3, 1.5
# If weights have a heavy tail, the first draws take about this long, by their predicted cost.
_SECONDS_OF_A_HEAVY_TAIL = 1.0
# Importance sampling is tried if it costs at most this share of what particles would.
_SHARE_OF_A_TRIAL = 0.05
# The particles of a row take at most about this long, by their predicted cost.
_MOST_SECONDS = 20.0


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
    """Log p(x) of each row: exact if affordable, else by `importance` or `smc` with as many draws as needed.

    Rows with large counts use `importance`, whose cost grows with nonzeros. All other rows, and those whose weights are
    not reliable, use `smc`, whose cost grows with tokens. The choice depends on counted costs and on the draws
    themselves, never on the clock.

    Parameters
    ----------
    X, dictionary, shape, rate, rng, n_jobs
        As for all estimators: see `partwise.likelihood`.
    std_error
        Target standard error of a row, in nats; 0 = use all draws.
    max_cost
        Largest cost of the exact value of a row, in multiply-adds (1e7 take about 5 ms); 0 = never exact.
    max_draws
        Largest number of particles or draws per row. If they do not suffice, a warning names the first such row.
    engine
        None: threads; or the workers of a Dask cluster, as for the estimators. The result is the same.

    Returns
    -------
    LogLikelihood
        Values, standard errors (0 if exact, infinite if draws are not reliable) and effective sample sizes (infinite if
        exact), one per row. For 95% of the rows, the true value is within two standard errors.

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
    missed = np.flatnonzero(~(errors <= (std_error or np.finfo(np.float64).max)))
    if missed.size:
        n = int(missed[0])
        reached = (
            f"reached a standard error of {errors[n]:.2g} nats with max_draws = {max_draws}, not the {std_error:g} that"
            " you asked for: raise max_draws or std_error"
            if errors[n] < np.inf
            else "has draws that are not reliable, so its standard error is infinite: do not use its value"
        )
        warnings.warn(
            f"Row {n} of X{'' if missed.size == 1 else f' and {missed.size - 1} more'} {reached}.",
            InaccurateWarning,
            stacklevel=2,
        )
    if problem.cause:
        warnings.warn(
            f"{problem.cause}, so its log-likelihood is -inf: leave the feature out, or give it some weight in the"
            " dictionary, as background= of log_likelihood does.",
            ImpossibleRowsWarning,
            stacklevel=2,
        )
    return problem.result(logs, errors, ess)


def _estimate(problem: LikelihoodProblem, std_error: float, max_cost: float, max_draws: int) -> Triple:
    """Logarithms, standard errors and effective sample sizes, each row on its own."""
    cost = count_costs(problem)
    affordable = cost.cheapest <= max_cost
    logs = exact_logs(problem, cost, cost.choose("auto"), np.flatnonzero(affordable))
    errors, ess = np.zeros(problem.n_rows), np.full(problem.n_rows, np.inf)
    of_particles = smc_seconds(problem, _FIRST_ISLANDS * _N_PARTICLES)
    tried = ~affordable & (importance_seconds(problem, _FIRST_DRAWS) <= _SHARE_OF_A_TRIAL * of_particles)
    rest = ~affordable & ~tried
    for row in np.flatnonzero(tried).tolist():
        budget = of_particles[row] if of_particles[row] <= _MOST_SECONDS else np.inf
        logs[row], errors[row], ess[row] = _draw(problem, row, std_error, max_draws, budget)
        rest[row] = not errors[row] <= std_error and budget < np.inf
    rows = np.flatnonzero(rest)
    if rows.size:
        found = _grow(problem, rows, std_error, max_draws)
        # A row may have importance draws with a known, smaller error.
        better = tried[rows] & (errors[rows] <= found[1])
        logs[rows], errors[rows], ess[rows] = np.where(better, (logs[rows], errors[rows], ess[rows]), found)
    return logs, errors, ess


def _draw(
    problem: LikelihoodProblem, row: int, std_error: float, max_draws: int, most_seconds: float
) -> tuple[float, float, float]:
    """Importance draws of a row, until its error is small enough or particles would be cheaper.

    The draws that determine how many are needed are discarded. If they were kept, rows would stop when their error
    happens to look small. The error is infinite if the tail of the weights shows that it is not reliable.
    """
    rows, n_done, n_new = np.array([row]), 0, min(_FIRST_DRAWS, max_draws)
    while True:
        logs = importance_draws(problem, rows, n_new, first_draw=n_done)
        value, error, ess, index = summary_of_draws(problem, rows, logs)[:, 0]
        n_done += n_new
        light = index <= _LIGHT_TAIL
        growth = np.clip(_MARGIN * error / std_error, 2.0, _MOST_GROWTH) ** 2 if std_error > 0.0 else _MOST_GROWTH**2
        enough = error <= std_error and (light or (index <= MOST_PARETO_K and n_new > _FIRST_DRAWS))
        # With a heavy tail, errors rarely show how many draws are needed: take all that fit into a second.
        quick = int(n_new * _SECONDS_OF_A_HEAVY_TAIL / importance_seconds(problem, n_new)[row])
        n_new = min(n_new * int(growth if light else max(quick // n_new, _MOST_GROWTH)), max_draws - n_done)
        n_new = n_new // _FIRST_DRAWS * _FIRST_DRAWS
        if enough or n_new < n_done or importance_seconds(problem, n_new)[row] > most_seconds:
            break
    return float(value), float(error) if index <= MOST_PARETO_K else np.inf, float(ess)


def _grow(problem: LikelihoodProblem, rows: Integers, std_error: float, max_draws: int) -> Triple:
    """Add islands to each row until its standard error is small enough. Rows do not affect each other.

    A row at most doubles its islands at a time: the spread of the first few is a poor guide to how many are needed.
    """
    settings = ParticleSettings(_N_PARTICLES, OWN_STAGES, OWN_LOOKAHEAD, RESAMPLE_BELOW)
    affordable = _MOST_SECONDS / np.maximum(smc_seconds(problem, _FIRST_ISLANDS * _N_PARTICLES)[rows], 1e-9)
    most = np.maximum(np.minimum(max_draws // (_FIRST_ISLANDS * _N_PARTICLES), affordable.astype(np.int64)), 1)
    most *= _FIRST_ISLANDS
    plain = _prefer_plain(problem, rows, settings)
    done = np.zeros(rows.size, dtype=np.int64)
    wanted = np.full(rows.size, _FIRST_ISLANDS)
    # Sums of the islands' estimates and of their squares, in units of the first; the same for their logarithms.
    sums, units, ess = np.zeros((4, rows.size)), np.zeros(rows.size), np.zeros(rows.size)
    while (active := np.flatnonzero(wanted > done)).size:
        # Rows that need the same islands next are processed together.
        kinds, kind = np.unique(np.column_stack((done, wanted, plain))[active], axis=0, return_inverse=True)
        for number, (first, last, is_plain) in enumerate(kinds):
            group, how = active[kind.ravel() == number], settings
            if is_plain:  # those that were compared are not used again
                how, first, last = settings._replace(lookahead=0.0), first + _FIRST_ISLANDS, last + _FIRST_ISLANDS
            logs, sizes = smc_islands(problem, rows[group], last - first, how, first_island=first)
            if not done[group[0]]:
                units[group] = logs.max(axis=1)
            logs -= units[group, None]
            terms = np.exp(logs), np.exp(2.0 * logs), logs, np.square(logs)
            sums[:, group] += [values.sum(axis=1) for values in terms]
            ess[group] += sizes.sum(axis=1)
        done[active] = wanted[active]
        means = sums / done
        log_variances = np.maximum(means[3] - means[2] ** 2, 0.0) * done / (done - 1)
        errors = log_mean_error(done, means[1] / means[0] ** 2, log_variances, _LOST_FREEDOM)
        # Particles that all agree have not seen what has less than their share of the probability.
        errors = np.maximum(errors, 1.0 / (done * _N_PARTICLES))
        growth = np.minimum((errors / std_error) ** 2, _MOST_ADDED) if std_error > 0.0 else _MOST_ADDED
        needed = np.ceil(done * growth / _ISLANDS_AT_ONCE) * _ISLANDS_AT_ONCE
        wanted = np.where(errors > std_error, np.minimum(needed, most), done).astype(np.int64)
    return units + np.log(means[0]), errors, ess


def _prefer_plain(problem: LikelihoodProblem, rows: Integers, settings: ParticleSettings) -> NDArray[np.bool_]:
    """Rows for which particles that do not look ahead find more.

    If shapes are tiny, few parts hold all tokens. Particles that look ahead can agree on the wrong ones, because they
    begin with larger shapes. Estimates are unbiased, so typical failures are too low, and the larger one is right.
    """
    if problem.shape.min() * problem.shape.size >= 1.0:
        return np.zeros(rows.size, np.bool_)
    found = [
        log_mean(smc_islands(problem, rows, _FIRST_ISLANDS, settings._replace(lookahead=share))[0])[0]
        for share in (OWN_LOOKAHEAD, 0.0)
    ]
    return np.asarray(found[1] > found[0])
