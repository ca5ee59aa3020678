"""The harmonic mean over posterior draws: popular, and wrong by orders of magnitude. Here to be compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.core.keys import RandomState
from partwise.errors import InvalidInputError
from partwise.likelihood.averages import average_draws
from partwise.likelihood.kernels.sampling import posterior_draws
from partwise.likelihood.problem import Floats, Problem
from partwise.likelihood.result import LogLikelihood


def harmonic_mean(
    X: Any,
    dictionary: Any,
    shape: Any,
    rate: Any,
    *,
    rng: RandomState = None,
    n_draws: int = 1000,
    burn_in: int = 100,
    n_jobs: int | None = 1,
) -> LogLikelihood:
    """Estimate log p(x) of each row by the harmonic mean of p(x | h) over posterior draws (Newton & Raftery 1994).

    Biased upwards: the draws never see the prior's bulk, where p(x | h) is small, and the variance of their inverse is
    infinite or astronomic. Neither the value nor its standard error should be used for anything but comparison.

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
    n_draws, burn_in
        Sweeps of a Gibbs chain for each row that are kept, at least 2, and that are thrown away before.
    n_jobs
        Threads; the result is the same for any number.

    Returns
    -------
    LogLikelihood
        Values, standard errors, effective sample sizes; one number a row.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.likelihood import harmonic_mean
    >>> result = harmonic_mean([[2, 1, 0]], np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]]), 1.0, 0.5, rng=0)
    >>> bool(abs(result.values[0] + 4.51) < 0.5)
    True
    """
    if n_draws < 2 or burn_in < 0:
        raise InvalidInputError(f"n_draws must be at least 2 and burn_in at least 0, got {n_draws} and {burn_in}.")
    problem = Problem.build(X, dictionary, shape, rate, rng=rng, n_jobs=n_jobs)
    words = problem.key.for_stage("harmonic mean").words

    def fill(start: int, stop: int, logs: Floats) -> None:
        posterior_draws(*problem.arrays, problem.rate, burn_in, *words, start, stop, logs)
        np.negative(logs, out=logs)

    inverse, errors, ess = average_draws(problem, n_draws, fill)
    return problem.result(-inverse - problem.log_zero, errors, ess)
