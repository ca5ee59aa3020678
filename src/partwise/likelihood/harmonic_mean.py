"""The harmonic mean over posterior draws: popular, and wrong by orders of magnitude. For comparison only."""

from typing import Any

from partwise.core.keys import RandomState
from partwise.likelihood.kernels.sampling import activation_draws
from partwise.likelihood.problem import LikelihoodProblem, LogLikelihood, average_draws, require_at_least


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

    It is biased upwards: the draws never visit the bulk of the prior, where p(x | h) is small, and the variance of
    their inverse is infinite or astronomical. Use neither the value nor its standard error for anything but comparison.

    Parameters
    ----------
    X, dictionary, shape, rate, rng, n_jobs
        As for all estimators: see `partwise.likelihood`.
    n_draws, burn_in
        Sweeps of a Gibbs chain per row that are kept, at least 2, and that are discarded before.

    Returns
    -------
    LogLikelihood
        Values, standard errors, effective sample sizes; one number per row.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.likelihood import harmonic_mean
    >>> result = harmonic_mean([[2, 1, 0]], np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]]), 1.0, 0.5, rng=0)
    >>> bool(abs(result.values[0] + 4.51) < 0.5)
    True
    """
    require_at_least(0, burn_in=burn_in)
    problem = LikelihoodProblem.build(X, dictionary, shape, rate, rng=rng, n_jobs=n_jobs)
    inverse, errors, ess = average_draws(problem, "harmonic mean", n_draws, activation_draws, True, burn_in)
    return problem.result(-inverse - problem.log_zero, errors, ess)
