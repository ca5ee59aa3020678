"""Direct sampling: draw activations from the prior. Unbiased, but useless for long rows."""

from typing import Any

from partwise.core.keys import RandomState
from partwise.likelihood.kernels.sampling import activation_draws
from partwise.likelihood.problem import Jobs, LikelihoodProblem, LogLikelihood, average_draws


def direct_sampling(
    X: Any, dictionary: Any, shape: Any, rate: Any, *, rng: RandomState = None, n_draws: int = 1000, n_jobs: Jobs = 1
) -> LogLikelihood:
    """Estimate log p(x) of each row by the mean of p(x | h) over draws of h from the prior (L2R, Eq. 9).

    It is unbiased on the scale of the likelihood. The prior ignores the row, so beyond a few tokens almost all draws
    are wasted, and the standard error, which comes from the same draws, is not reliable: use `smc`.

    Parameters
    ----------
    X, dictionary, shape, rate, rng, n_jobs
        As for all estimators: see `partwise.likelihood`.
    n_draws
        Number of draws per row, at least 2.

    Returns
    -------
    LogLikelihood
        Values, standard errors, effective sample sizes; one number per row.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.likelihood import direct_sampling
    >>> result = direct_sampling([[2, 1, 0]], np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]]), 1.0, 0.5, rng=0)
    >>> bool(abs(result.values[0] + 4.51) < 0.2)
    True
    """
    problem = LikelihoodProblem.build(X, dictionary, shape, rate, rng=rng, n_jobs=n_jobs)
    values, errors, ess = average_draws(problem, "direct sampling", n_draws, activation_draws, False, 0)
    return problem.result(values - problem.log_zero, errors, ess)
