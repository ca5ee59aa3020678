"""The negative multinomial distribution, which SciPy lacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from partwise.errors import InvalidInputError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NegativeMultinomial:
    """Counts c of F kinds with P(c) = Γ(a + Σc) / (Γ(a) Π c_f!) p_0^a Π p_f^c_f, p_0 = 1 - Σ p_f (GaP, Eq. 15).

    The number of successes of each kind before a failures, for any a > 0; equally, Poisson counts with rates w_f λ
    where λ ~ Gamma(a, b) (Proposition 1), or a multinomial split of a negative binomial total (Proposition 2).

    Parameters
    ----------
    shape
        Dispersion a, positive.
    probabilities
        p_f of each kind, nonnegative, with a sum below 1.

    Examples
    --------
    >>> NegativeMultinomial(2.0, [0.3, 0.2]).mean()
    array([1.2, 0.8])
    >>> float(NegativeMultinomial(2.0, [0.3, 0.2]).pmf([1, 0]).round(12))
    0.15
    """

    shape: float
    probabilities: Any
    _rest: float = field(default=np.nan, repr=False)

    def __post_init__(self) -> None:
        p = np.asarray(self.probabilities, dtype=np.float64)
        rest = float(1.0 - p.sum()) if np.isnan(self._rest) else self._rest
        if not (np.isfinite(self.shape) and self.shape > 0):
            raise InvalidInputError(f"shape must be a positive number, got {self.shape}.")
        if p.ndim != 1 or p.size == 0 or not np.all(p >= 0) or not rest > 0:
            raise InvalidInputError(
                "probabilities must be a row of nonnegative numbers with a sum below 1, got"
                f" {np.array2string(p, threshold=8)}."
            )
        object.__setattr__(self, "probabilities", p)
        object.__setattr__(self, "_rest", rest)

    @classmethod
    def of_rates(cls, shape: float, weights: Any, rate: float) -> Self:
        """The distribution of Poisson counts with rates w_f λ, λ ~ Gamma(shape, rate) (GaP, Eq. 17).

        Parameters
        ----------
        shape, rate
            Of the gamma distribution of λ.
        weights
            w_f of each kind, nonnegative.
        """
        weights = np.asarray(weights, dtype=np.float64)
        total = float(weights.sum()) + rate
        # Not 1 - Σ p_f, which has no digits left where the weights are large.
        return cls(shape, weights / total, rate / total)

    def logpmf(self, x: Any) -> Any:
        """Log probability of counts; -inf outside the support.

        Parameters
        ----------
        x
            Counts, with the kinds along the last axis.
        """
        counts = np.asarray(x, dtype=np.float64)
        if counts.ndim == 0 or counts.shape[-1] != self.probabilities.size:
            raise InvalidInputError(
                f"x must have {self.probabilities.size} counts along its last axis, got shape {counts.shape}."
            )
        possible = np.all((counts >= 0) & (counts == np.floor(counts)) & np.isfinite(counts), axis=-1)
        counts = np.where(possible[..., None], counts, 0.0)
        with np.errstate(divide="ignore"):
            logs = xlogy(counts, self.probabilities).sum(axis=-1) - gammaln(counts + 1.0).sum(axis=-1)
        logs += gammaln(self.shape + counts.sum(axis=-1)) - gammaln(self.shape) + self.shape * np.log(self._rest)
        return np.where(possible, logs, -np.inf)[()]

    def pmf(self, x: Any) -> Any:
        """Probability of counts, as `logpmf`."""
        return np.exp(self.logpmf(x))

    def rvs(self, size: int | tuple[int, ...] | None = None, random_state: Any = None) -> NDArray[np.int64]:
        """Draws, with the kinds along the last axis.

        Parameters
        ----------
        size
            Number of draws, or the shape of an array of them.
        random_state
            Generator, or a seed for one.
        """
        rng = np.random.default_rng(random_state)
        leading = () if size is None else (size,) if isinstance(size, int) else tuple(size)
        level = rng.gamma(self.shape, size=(*leading, 1))
        draws: NDArray[np.int64] = rng.poisson(level * self.probabilities / self._rest)
        return draws

    def mean(self) -> Floats:
        """E[c_f] = a p_f / p_0 (GaP, Eq. 16)."""
        mean: Floats = self.shape * self.probabilities / self._rest
        return mean

    def cov(self) -> Floats:
        """Covariance matrix: a (diag(r) + r rᵀ) with r_f = p_f / p_0."""
        ratios = self.probabilities / self._rest
        covariance: Floats = self.shape * (np.diag(ratios) + np.outer(ratios, ratios))
        return covariance
