"""Gamma-Poisson factorization as a model, with three equivalent ways to draw data from it.

And the negative multinomial distribution of what one component adds, which SciPy lacks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.core.run import Algorithm
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.poisson.model import PoissonModel

GENERATORS = ("gamma-poisson", "negative-multinomial", "negative-binomial-multinomial")


@dataclass(frozen=True, eq=False)
class GammaPoissonModel:
    """h_nk ~ Gamma(a_k, rate b_k), x_nf ~ Poisson(Σ_k w_fk h_nk), with the dictionary w a free parameter (GaP, 1-2).

    Parameters
    ----------
    dictionary
        Features x components, nonnegative.
    shape, rate
        a_k and b_k: numbers, or one per component.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.core.keys import Key
    >>> model = GammaPoissonModel(np.array([[3.0, 0.0], [1.0, 5.0]]), shape=1.0, rate=1.0)
    >>> model.mean()
    array([3., 6.])
    >>> model.simulate(Key(0), 4).shape
    (4, 2)
    """

    dictionary: Floats
    shape: Any = 1.0
    rate: Any = 1.0

    def __post_init__(self) -> None:
        n_components = self.dictionary.shape[1]
        for name in ("shape", "rate"):
            values = np.broadcast_to(np.asarray(getattr(self, name), dtype=np.float64), (n_components,))
            object.__setattr__(self, name, np.ascontiguousarray(values))

    def mean(self) -> Floats:
        """E[x_f] = Σ_k (a_k / b_k) w_fk (GaP, Eq. 21)."""
        return np.asarray(self.dictionary @ (self.shape / self.rate))

    def component(self, k: int) -> NegativeMultinomial:
        """The distribution of the counts c_n.k that component k adds to a sample (GaP, Theorem 1)."""
        return NegativeMultinomial.of_rates(float(self.shape[k]), self.dictionary[:, k], float(self.rate[k]))

    def simulate(self, key: Key, n_samples: int, *, generator: str = "gamma-poisson") -> Any:
        """Counts of new samples, as a CSR array.

        Parameters
        ----------
        key
            Address of the random numbers.
        n_samples
            Number of samples.
        generator
            One of three ways that give the same distribution: ``"gamma-poisson"`` (Eq. 1-2), ``"negative-multinomial"``
            (Theorem 1) or ``"negative-binomial-multinomial"`` (Theorem 2).
        """
        # Not the stage of the Poisson model's own draws.
        rng = key.for_stage("simulate activations").generator()
        if generator == "gamma-poisson":
            activations = rng.gamma(self.shape, 1.0 / self.rate, size=(n_samples, self.shape.size))
            return PoissonModel(activations, self.dictionary).simulate(key)
        draw = {
            "negative-multinomial": self._negative_multinomial_part,
            "negative-binomial-multinomial": self._multinomial_part,
        }.get(generator)
        if draw is None:
            raise InvalidInputError(f"generator must be one of {', '.join(GENERATORS)}, got {generator!r}.")
        counts = np.zeros((n_samples, self.dictionary.shape[0]), dtype=np.int64)
        for k in range(self.shape.size):
            counts += draw(rng, k, n_samples)
        return sp.csr_array(counts)

    def _negative_multinomial_part(self, rng: np.random.Generator, k: int, n_samples: int) -> NDArray[np.int64]:
        return self.component(k).rvs(n_samples, random_state=rng)

    def _multinomial_part(self, rng: np.random.Generator, k: int, n_samples: int) -> NDArray[np.int64]:
        weights = self.dictionary[:, k]
        total = weights.sum()
        if total == 0:
            return np.zeros((n_samples, weights.size), dtype=np.int64)
        # NumPy's p is the probability of what is counted to `n`: 1 - p of Eq. 22.
        lengths = rng.negative_binomial(self.shape[k], self.rate[k] / (total + self.rate[k]), size=n_samples)
        return rng.multinomial(lengths, weights / total)

    def log_joint(self, data: SparseData, activations: Floats) -> float:
        """Log p(X, h | w), the log x! terms included; -inf where a count has rate 0."""
        prior = xlogy(self.shape, self.rate) - gammaln(self.shape)
        with np.errstate(divide="ignore"):
            logs = xlogy(self.shape - 1.0, activations) - self.rate * activations + prior
        return PoissonModel(activations, self.dictionary).log_likelihood(data) + float(logs.sum())


class GammaPoissonAlgorithm(Algorithm[Any], Protocol):
    """An algorithm whose states stand for a model."""

    def model(self, state: Any) -> GammaPoissonModel:
        """Dictionary, shapes and rates of a state."""


def column_norms(dictionary: Floats) -> dict[str, float]:
    """w_+k of each component, as columns of a trace, which `partwise.plotting.plot_norms` draws."""
    return {f"column_norm_{k}": float(norm) for k, norm in enumerate(dictionary.sum(axis=0))}


@dataclass(frozen=True, eq=False)
class NegativeMultinomial:
    """Counts c of F kinds with P(c) = Γ(a + Σc) / (Γ(a) Π c_f!) p_0^a Π p_f^c_f, p_0 = 1 - Σ p_f (GaP, Eq. 15).

    The number of successes of each kind before a failures, for any a > 0. Equally, Poisson counts with rates w_f λ
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
        return np.asarray(rng.poisson(level * self.probabilities / self._rest))

    def mean(self) -> Floats:
        """E[c_f] = a p_f / p_0 (GaP, Eq. 16)."""
        return np.asarray(self.shape * self.probabilities / self._rest)

    def cov(self) -> Floats:
        """Covariance matrix: a (diag(r) + r rᵀ) with r_f = p_f / p_0."""
        ratios = self.probabilities / self._rest
        return np.asarray(self.shape * (np.diag(ratios) + np.outer(ratios, ratios)))
