"""Importance sampling of activations: the cost grows with nonzeros, not tokens, and it improves as counts grow."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from partwise.core.keys import RandomState
from partwise.engines.blocks import row_blocks
from partwise.errors import InaccurateWarning
from partwise.kernels.streams import new_stream
from partwise.likelihood.averages import MOST_PARETO_K, log_mean, pareto_k
from partwise.likelihood.kernels.importance import N_LANES, N_PILOT, importance_rows, new_draws
from partwise.likelihood.kernels.mode import new_mode
from partwise.likelihood.kernels.rows import Integers, row_buffers
from partwise.likelihood.problem import Floats, Jobs, LikelihoodProblem, LogLikelihood, require_at_least

LEAST_DRAWS = 128  # fewer say too little about their tail

_ROWS_AT_ONCE = 256
_NONZEROS_AT_ONCE = 4096
# Weights with a tail index of 1/2 or more have no variance: draws show less spread than there is. Errors are widened by
# this per unit of the index above that of a light tail. Chosen so that two errors cover 95%.
_LIGHT_TAIL, _HEAVY = 0.4, 7.0
# Measured, in nanoseconds: per nonzero and draw, more for each part; per draw; per nonzero to find the mode.
_OF_A_NONZERO, _OF_A_COMPONENT, _OF_A_DRAW, _OF_THE_MODE = 3.0, 0.33, 300.0, 300.0


def importance(
    X: Any, dictionary: Any, shape: Any, rate: Any, *, rng: RandomState = None, n_draws: int = 1024, n_jobs: Jobs = 1
) -> LogLikelihood:
    """Estimate log p(x) of each row by importance sampling of its activations.

    This is not in the papers. The scale of a row's activations is integrated out exactly, which leaves their
    proportions. These are drawn from a mixture: t distributions at the mode of their posterior, in log ratios, and
    Dirichlet distributions from the variational one to the prior. A pilot of 512 draws, which is then discarded,
    decides how much is drawn from each. The larger the counts, the closer the posterior is to the first of these. It is
    unbiased on the scale of the likelihood.

    Time grows with nonzeros, not with tokens: 4 to 20 ns per nonzero and draw. Use it for rows with large counts, and
    for few parts. With 20 parts and short rows, a few draws have all the weight.

    Parameters
    ----------
    X, dictionary, shape, rate, rng, n_jobs
        As for all estimators: see `partwise.likelihood`.
    n_draws
        Number of draws per row, at least 128.

    Returns
    -------
    LogLikelihood
        Values, standard errors, effective sample sizes, and `pareto_k`, the tail index of the weights; one number per
        row.

    Warns
    -----
    InaccurateWarning
        If ``pareto_k`` is above 0.7: the draws that matter have not been seen.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.likelihood import importance
    >>> result = importance([[2, 1, 0]], np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]]), 1.0, 0.5, rng=0)
    >>> bool(abs(result.values[0] + 4.51) < 0.02)
    True
    """
    require_at_least(LEAST_DRAWS, n_draws=n_draws)
    problem = LikelihoodProblem.build(X, dictionary, shape, rate, rng=rng, n_jobs=n_jobs)
    found = np.empty((4, problem.n_rows))
    for start in range(0, problem.n_rows, _ROWS_AT_ONCE):
        rows = np.arange(start, min(start + _ROWS_AT_ONCE, problem.n_rows))
        found[:, rows] = summary_of_draws(problem, rows, importance_draws(problem, rows, n_draws))
    heavy = np.flatnonzero(found[3] > MOST_PARETO_K)
    if heavy.size:
        n = int(heavy[0])
        warnings.warn(
            f"Row {n} of X{'' if heavy.size == 1 else f' and {heavy.size - 1} more'} cannot be trusted: the weights of"
            f" its draws have a tail index of {found[3, n]:.2g}, above {MOST_PARETO_K}. Use partwise.likelihood.auto,"
            " or raise n_draws.",
            InaccurateWarning,
            stacklevel=2,
        )
    return replace(problem.result(*found[:3]), pareto_k=found[3])


def importance_draws(problem: LikelihoodProblem, rows: Integers, n_draws: int, *, first_draw: int = 0) -> Floats:
    """Log weights of draws, rows x draws; ``first_draw`` is a multiple of 64."""
    out = np.empty((rows.size, n_draws))
    words = problem.key.for_stage("importance").words
    sizes = np.diff(problem.data.indptr)[rows]

    def one(block: tuple[int, int]) -> None:
        start, stop = block
        part = rows[start:stop]
        row = row_buffers(problem.data.indptr, part, problem.shape.size, problem.model.stop)
        room = row, new_mode(row.counts.size, problem.shape.size), new_draws(problem.shape.size)
        address = problem.first_row, first_draw // N_LANES, words
        importance_rows(problem.model, part, *address, new_stream(), *room, out[start:stop])

    problem.for_each(one, row_blocks(np.concatenate(([0], np.cumsum(sizes + 1))), _NONZEROS_AT_ONCE))
    return out


def summary_of_draws(problem: LikelihoodProblem, rows: Integers, logs: Floats) -> Floats:
    """Values, standard errors, effective sample sizes and tail indices, stacked, from rows of log weights."""
    values, errors, ess = log_mean(logs)
    tails = pareto_k(logs)
    errors *= 1.0 + _HEAVY * np.maximum(tails - _LIGHT_TAIL, 0.0)
    # The integrand is a sum of terms as large as log L!, and all draws share their rounding.
    rounding = np.finfo(np.float64).eps * gammaln(problem.data.row_sums[rows] + 2.0)
    return np.stack((values, np.hypot(errors, rounding), ess, tails))


def importance_seconds(problem: LikelihoodProblem, n_draws: int) -> Floats:
    """Predicted time of each row, from its nonzeros."""
    nonzeros, n_components = np.diff(problem.data.indptr), problem.shape.size
    of_a_nonzero = _OF_A_NONZERO + _OF_A_COMPONENT * n_components
    of_draws = (n_draws + N_PILOT) * (nonzeros * of_a_nonzero + _OF_A_DRAW + n_components**2)
    return np.asarray(1e-9 * (of_draws + nonzeros * _OF_THE_MODE * n_components))
