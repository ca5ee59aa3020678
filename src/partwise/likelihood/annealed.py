"""Annealed importance sampling over tokens, from a strong prior to the model's prior."""

from typing import Any

import numpy as np

from partwise.core.keys import RandomState
from partwise.kernels.streams import new_stream
from partwise.likelihood.kernels.annealed import annealed_rows
from partwise.likelihood.kernels.lanes import N_LANES, new_lanes
from partwise.likelihood.kernels.rows import RowModel, Words, row_buffers
from partwise.likelihood.problem import Floats, LikelihoodProblem, LogLikelihood, average_draws, require_at_least
from partwise.likelihood.smc import smc_seconds


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

    The left-to-right paper rules out annealing, because counts fix the sums of their allocations. Over single tokens
    there is no such constraint. The path leads from a strong prior to the model's own. The strong prior has its mean
    where collapsed variational inference places the row's tokens. Shapes fall by equal ratios, with a collapsed Gibbs
    sweep at each step. (A path from equally good parts to the row's own is tens of nats too low at 1,000 tokens.) It is
    unbiased on the scale of the likelihood. Runs are independent, so the standard error is that of a plain mean.

    Parameters
    ----------
    X, dictionary, shape, rate, rng, n_jobs
        As for all estimators: see `partwise.likelihood`.
    n_draws
        Number of annealed runs per row, at least 2.
    n_temperatures
        Number of steps of the path. Each but the last has one Gibbs sweep.

    Returns
    -------
    LogLikelihood
        Values, standard errors, effective sample sizes; one number per row.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.likelihood import annealed
    >>> result = annealed([[2, 1, 0]], np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]]), 1.0, 0.5, rng=0)
    >>> bool(abs(result.values[0] + 4.51) < 0.05)
    True
    """
    require_at_least(2, n_draws=n_draws)
    require_at_least(1, n_temperatures=n_temperatures)
    problem = LikelihoodProblem.build(X, dictionary, shape, rate, rng=rng, n_jobs=n_jobs)
    n_lanes = -(-n_draws // -(-n_draws // N_LANES))
    problem.check_labels("annealed", problem.data.row_sums, n_lanes)
    problem.refuse_hopeless("annealed", smc_seconds(problem, n_draws, n_temperatures))
    settings = n_temperatures, n_lanes, int(problem.data.row_sums.max())
    return problem.result(*average_draws(problem, "annealed", n_draws, _annealed_draws, *settings, log_normal=True))


def _annealed_draws(
    model: RowModel, n_temperatures: int, n_lanes: int, longest: int, words: Words, start: int, stop: int, out: Floats
) -> None:
    rows = np.arange(start, stop)
    row = row_buffers(model.indptr, rows, model.shape.size, model.stop)
    room = new_lanes(model.stop, row.counts.size, model.shape.size, longest, n_lanes)
    runs = np.empty((rows.size, -(-out.shape[1] // n_lanes) * n_lanes))
    annealed_rows(model, rows, n_temperatures, words, new_stream(), row, room, runs)
    out[:] = runs[:, : out.shape[1]]
