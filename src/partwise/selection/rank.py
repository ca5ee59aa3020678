"""The number of parts: candidates scored by one criterion, on the scale of a log-likelihood."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise._registry import estimator_classes
from partwise.core.keys import RandomState, key_from
from partwise.errors import InaccurateWarning, InvalidInputError
from partwise.kernels.arrays import Floats

Criterion = Callable[..., tuple[float, float]]


@dataclass(frozen=True)
class RankSelection:
    """The result of `select_rank`.

    Attributes
    ----------
    candidates
        The choices of K, in increasing order.
    scores, std_errors
        Score and standard error of each candidate, in nats; higher is better.
    probabilities
        Posterior probability of each candidate, under equal prior probabilities.
    """

    candidates: NDArray[np.intp]
    scores: Floats
    std_errors: Floats
    probabilities: Floats

    @property
    def best(self) -> int:
        """The candidate with the highest score."""
        return int(self.candidates[np.argmax(self.scores)])


def marginal_likelihood(X: Any, n_components: int, *, rng: int, **options: Any) -> tuple[float, float]:
    """Log p(X) and its standard error, for the model that offers it (the allocation model).

    Options that are parameters of the estimator set its priors; the others set the effort of its `log_evidence`.
    """
    cls = next(model for model in estimator_classes() if model.declares.evidence is not None)
    names = set(cls().get_params(deep=False))
    priors = {name: value for name, value in options.items() if name in names}
    effort = {name: value for name, value in options.items() if name not in names}
    found: tuple[float, float] = cls(n_components, **priors).log_evidence(X, random_state=rng, **effort)
    return found


CRITERIA: Mapping[str, Criterion] = MappingProxyType({"marginal-likelihood": marginal_likelihood})
"""Criteria by name; ``criterion(X, n_components, rng=seed, **options)`` returns score and standard error in nats."""


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
        Choices of K to try, such as ``range(1, 9)``.
    criterion
        A name in `CRITERIA`, or a function with the same arguments: ``criterion(X, n_components, rng=seed,
        **options)``.
    random_state
        Seed: int, Generator or None; all candidates get the same seed.
    options
        Options of the criterion: here priors and effort of `partwise.allocation.log_marginal_likelihood`.

    Returns
    -------
    RankSelection
        Candidates, scores, standard errors, and posterior probabilities if the score is log p(X | K).

    Warns
    -----
    InaccurateWarning
        If the standard errors leave open which candidate is best.

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
        raise InvalidInputError("candidates must name at least one number of parts, each at least 1.")
    if isinstance(criterion, str):
        if criterion not in CRITERIA:
            raise InvalidInputError(f"criterion must be a function or one of {', '.join(CRITERIA)}, got {criterion!r}.")
        criterion = CRITERIA[criterion]
    seed = key_from(random_state).seed
    with warnings.catch_warnings():
        # An inaccurate score matters only if it decides the result; a warning below says so.
        warnings.simplefilter("ignore", InaccurateWarning)
        scored = np.array([criterion(X, int(n_components), rng=seed, **options) for n_components in tried])
    scores, std_errors = scored.T.copy()
    weights = np.exp(scores - scores.max())
    found = RankSelection(tried, scores, std_errors, weights / weights.sum())
    _warn_if_open(found)
    return found


def _warn_if_open(found: RankSelection) -> None:
    """Warn if standard errors of more than a nat leave open which of two candidates is better."""
    best = int(np.argmax(found.scores))
    leads = found.scores[best] - found.scores
    errors = np.hypot(found.std_errors, found.std_errors[best])
    undecided = (errors > 1.0) & (leads < 2.0 * errors)
    undecided[best] = False
    if undecided.any():
        other = int(np.flatnonzero(undecided)[np.argmin(leads[undecided])])
        warnings.warn(
            f"select_rank cannot tell {found.candidates[best]} from {found.candidates[other]} parts: their scores"
            f" differ by {leads[other]:.2g} nats, with a standard error of {errors[other]:.2g}. Give the"
            " criterion more effort, such as a larger n_stages=.",
            InaccurateWarning,
            stacklevel=3,
        )
