"""The number of parts: candidates scored by one criterion, on the scale of a log-likelihood."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.marginal import log_marginal_likelihood
from partwise.core.keys import RandomState, key_from
from partwise.errors import InvalidInputError

Floats = NDArray[np.float64]
Criterion = Callable[..., tuple[float, float]]


@dataclass(frozen=True)
class RankSelection:
    """What `select_rank` found.

    Attributes
    ----------
    candidates
        Numbers of parts, in increasing order.
    scores, std_errors
        Of each candidate, in nats; greater is better.
    probabilities
        Posterior probability of each candidate, all having been equally likely before.
    """

    candidates: NDArray[np.intp]
    scores: Floats
    std_errors: Floats
    probabilities: Floats

    @property
    def best(self) -> int:
        """The candidate of the highest score."""
        return int(self.candidates[np.argmax(self.scores)])


def marginal_likelihood(X: Any, n_components: int, *, rng: int, **options: Any) -> tuple[float, float]:
    """Log p(X) of the allocation model by `partwise.allocation.log_marginal_likelihood`, and its standard error."""
    found = log_marginal_likelihood(X, n_components, rng=rng, **options)
    return found.total, found.total_std_error


CRITERIA: Mapping[str, Criterion] = MappingProxyType({"marginal-likelihood": marginal_likelihood})
"""Criteria by name; ``criterion(X, n_components, rng=seed, **options)`` gives a score in nats and its error."""


def select_rank(
    X: Any,
    candidates: Iterable[int] = range(1, 9),
    *,
    criterion: str | Criterion = "marginal-likelihood",
    random_state: RandomState = None,
    **options: Any,
) -> RankSelection:
    """Score each number of parts.

    Parameters
    ----------
    X
        Counts, samples x features.
    candidates
        Numbers of parts to try.
    criterion
        A name of `CRITERIA`, or a function like those: ``criterion(X, n_components, rng=seed, **options)``.
    random_state
        Seed: int, Generator or None; all candidates get the same seed.
    options
        For the criterion: here priors and effort of `partwise.allocation.log_marginal_likelihood`.

    Returns
    -------
    RankSelection
        Candidates, scores, standard errors, and posterior probabilities where the score is log p(X | K).

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.selection import select_rank
    >>> X = np.kron(np.eye(2, dtype=int), np.full((4, 3), 5))
    >>> select_rank(X, range(1, 4), random_state=0, n_islands=4, n_stages=20).best
    2
    """
    tried = np.unique(np.array(list(candidates), dtype=np.intp))
    if tried.size == 0 or tried[0] < 1:
        raise InvalidInputError("candidates must be numbers of parts, at least one, each at least 1.")
    if isinstance(criterion, str):
        if criterion not in CRITERIA:
            raise InvalidInputError(f"criterion must be a function or one of {', '.join(CRITERIA)}, got {criterion!r}.")
        criterion = CRITERIA[criterion]
    seed = key_from(random_state).seed
    scored = np.array([criterion(X, int(n_components), rng=seed, **options) for n_components in tried])
    scores, std_errors = scored.T.copy()
    weights = np.exp(scores - scores.max())
    return RankSelection(tried, scores, std_errors, weights / weights.sum())
