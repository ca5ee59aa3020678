"""The left-to-right algorithm of the paper, as a baseline."""

from typing import Any

import numpy as np

from partwise.core.keys import RandomState
from partwise.errors import InvalidInputError
from partwise.likelihood.kernels.left_to_right import left_to_right_rows
from partwise.likelihood.problem import Floats, LikelihoodProblem, LogLikelihood, require_at_least


def left_to_right(
    X: Any,
    dictionary: Any,
    shape: Any,
    rate: Any,
    *,
    rng: RandomState = None,
    n_draws: int = 100,
    conditionals: str = "sampled",
    n_inner: int = 1,
    n_chains: int = 1,
    n_jobs: int | None = 1,
) -> LogLikelihood:
    """Estimate log p(x) of each row feature by feature, from left to right (L2R, Algorithm 1).

    It is a product of averages over draws that continue from feature to feature, so it is not unbiased. Its cost is
    quadratic in the number of nonzero features. The proposal of Eq. 20 is corrected: the feature itself counts in its
    denominator, which makes a count of one exact. Algorithm 1 reads as if each draw had its own chain
    (``n_chains=n_draws``), but the authors' program has one chain for all. The former has smaller errors with few
    draws, but one sweep per feature does not forget the proposals, so it does not converge to p(x).

    Parameters
    ----------
    X, dictionary, shape, rate, rng, n_jobs
        As for all estimators: see `partwise.likelihood`.
    n_draws
        S of the paper: draws of the allocations of the features on the left, at least 2.
    conditionals
        ``"sampled"``: p(x_f | left) by importance sampling with ``n_inner`` draws. ``"exact"``: in closed form, which
        takes O(x_f²) time, not exponential time as the paper says.
    n_inner
        S' of the paper.
    n_chains
        Number of Gibbs chains from which the draws of a feature are taken in turn, at most ``n_draws``.

    Returns
    -------
    LogLikelihood
        Values, standard errors, effective sample sizes; one number per row.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.likelihood import left_to_right
    >>> result = left_to_right([[2, 1, 0]], np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]]), 1.0, 0.5, rng=0)
    >>> bool(abs(result.values[0] + 4.51) < 0.1)
    True
    """
    require_at_least(2, n_draws=n_draws)
    require_at_least(1, n_inner=n_inner)
    if not 1 <= n_chains <= n_draws:
        raise InvalidInputError(f"n_chains must be between 1 and n_draws = {n_draws}, got {n_chains}.")
    if conditionals not in ("sampled", "exact"):
        raise InvalidInputError(f'conditionals must be "sampled" or "exact", got {conditionals!r}.')
    problem = LikelihoodProblem.build(X, dictionary, shape, rate, rng=rng, n_jobs=n_jobs)
    problem.refuse_hopeless("left_to_right", _seconds(problem, n_draws, n_inner, conditionals))
    logs, variances = np.empty((2, problem.n_rows))
    words = problem.key.for_stage("left to right").words
    numbers = n_draws, n_inner if conditionals == "sampled" else 0, n_chains

    def one(block: tuple[int, int]) -> None:
        left_to_right_rows(problem.model, numbers, words, *block, logs, variances)

    problem.for_each(one, problem.row_blocks())
    # The conditionals include the constants.
    return problem.result(logs - problem.constants, np.sqrt(variances), np.full(problem.n_rows, float(n_draws)))


def _seconds(problem: LikelihoodProblem, n_draws: int, n_inner: int, conditionals: str) -> Floats:
    """Predicted time of each row: allocations of all features on the left, and the conditionals of each feature."""
    data, n_components = problem.data, problem.shape.size
    nonzeros = np.diff(data.indptr).astype(np.float64)
    of_features = np.square(nonzeros) * n_components
    if conditionals == "exact":
        rows = np.repeat(np.arange(problem.n_rows), np.diff(data.indptr))
        squares = np.square(data.values.astype(np.float64))
        return np.asarray(1e-9 * n_draws * (of_features + np.bincount(rows, squares, problem.n_rows)))
    return np.asarray(1e-9 * n_draws * (of_features + n_inner * nonzeros * n_components))
