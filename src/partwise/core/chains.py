"""Whether chains agree: rank-normalised R-hat and effective sample sizes of numbers that have no labels."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.io.optional import require


class Diagnostic(NamedTuple):
    """Of one quantity over all draws of all chains.

    R-hat is near 1 where chains agree (Vehtari et al. 2021); the effective sample sizes say how many independent draws
    the bulk, and the tails, are worth.
    """

    mean: float
    r_hat: float
    ess_bulk: float
    ess_tail: float


def diagnose(draws: NDArray[np.float64]) -> Diagnostic:
    """Diagnostics of chains x draws; NaN where there are fewer than four draws or they do not vary."""
    import arviz_stats.base

    statistics: Any = arviz_stats.base.array_stats  # type: ignore[attr-defined]  # made lazily

    mean = float(draws.mean()) if draws.size else float("nan")
    if draws.shape[1] < 4 or np.ptp(draws) == 0:
        return Diagnostic(mean, *(float("nan"),) * 3)
    found = (
        statistics.rhat(draws, chain_axis=0, draw_axis=1, method="rank"),
        statistics.ess(draws, chain_axis=0, draw_axis=1, method="bulk"),
        statistics.ess(draws, chain_axis=0, draw_axis=1, method="tail", prob=(0.05, 0.95)),
    )
    return Diagnostic(mean, *(float(np.asarray(value)) for value in found))


def check_chains(chains: dict[str, NDArray[np.float64]]) -> None:
    """Raise ``ValueError`` unless all quantities are numbers, chains x draws, equally many of each."""
    shapes = {values.shape for values in chains.values()}
    if len(shapes) > 1 or any(values.ndim != 2 or values.dtype.kind not in "iuf" for values in chains.values()):
        raise ValueError("its draws are not numbers of chains x draws")


class ChainedEstimator(ABC):
    """What an estimator that samples offers about its chains; it says which numbers of each draw it kept."""

    @abstractmethod
    def _chains(self) -> dict[str, NDArray[np.float64]]:
        """Chains x draws of each quantity that does not depend on how parts are numbered."""

    def diagnostics(self) -> dict[str, Diagnostic]:
        """Rank-normalised R-hat and effective sample sizes of what does not depend on how parts are numbered.

        Returns
        -------
        dict
            ``Diagnostic(mean, r_hat, ess_bulk, ess_tail)`` of each quantity, such as ``log_joint`` and ``n_active``. An
            R-hat above 1.01 says that chains do not agree yet: raise ``burn_in``.
        """
        return {name: diagnose(values) for name, values in self._chains().items()}

    def to_arviz(self) -> Any:
        """The same quantities, chains x draws, as an ``arviz.InferenceData`` (the extra ``arviz``).

        A log-likelihood of the observed data is called ``data_log_likelihood`` there.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # said by arviz about its own future when it is imported
            arviz = require("arviz", "arviz", "to_arviz")
        # Under its own name arviz takes it for the pointwise log-likelihood that its scores need.
        renamed = {"log_likelihood": "data_log_likelihood"}
        chains = {renamed.get(name, name): values for name, values in self._chains().items()}
        return arviz.from_dict(posterior=chains)
