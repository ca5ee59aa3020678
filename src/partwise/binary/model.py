"""The three mean-parameterised models of bits (Lumbreras, Filstroff & Févotte 2020), with their priors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln, xlogy

from partwise.core.keys import Key
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats

Kind = Literal["beta-dir", "dir-beta", "dir-dir"]

Estimated = Literal["beta", "concentration", "activation_concentration"]

KINDS: tuple[Kind, ...] = ("beta-dir", "dir-beta", "dir-dir")

# Estimated parameters of priors stay above this. Smaller values have the same effect, and would round to 0.
SMALLEST = 1e-200


class SimulatedBits(NamedTuple):
    """Bits (samples x features), activations (samples x parts) and dictionary (features x parts)."""

    bits: NDArray[np.int8]
    activations: Floats
    dictionary: Floats


class Priors(NamedTuple):
    """Parameters of the priors, one of each kind per part; see `BinaryModel`."""

    alpha: Floats
    beta: Floats
    concentration: Floats
    activation_concentration: Floats

    @property
    def of_bits(self) -> Floats:
        """Parts x bit: what the beta prior adds to counts of zeros and of ones."""
        return np.stack((self.beta, self.alpha), axis=1)


@dataclass(frozen=True)
class BinaryModel:
    """P(x_nf = 1) = Σ_k w_fk h_nk, where the priors of the two factors keep the sum below 1.

    - ``"beta-dir"``: w_f. ~ Dirichlet(concentration), h_nk ~ Beta(alpha, beta);
    - ``"dir-beta"``: w_fk ~ Beta(alpha, beta), h_n. ~ Dirichlet(concentration): Beta-Dir on the transposed matrix;
    - ``"dir-dir"``: w_f. ~ Dirichlet(concentration), h_n. ~ Dirichlet(activation_concentration).

    All Dirichlet distributions are over parts. Parameters apply to one part: a number for all, or an array. Those that
    ``estimated`` names are random, too, and their given values are the start of inference: each alpha and beta has the
    prior Gamma(1, 1), each concentration Gamma(concentration_shape, 1).

    Examples
    --------
    >>> from partwise.core.keys import Key
    >>> BinaryModel("dir-dir", 3).simulate(Key(0), 5, 4).bits.shape
    (5, 4)
    """

    kind: Kind
    n_components: int
    alpha: float | Floats = 1.0
    beta: float | Floats = 1.0
    concentration: float | Floats = 1.0
    activation_concentration: float | Floats = 1.0
    estimated: tuple[Estimated, ...] = ()
    concentration_shape: float = 1.0

    def __post_init__(self) -> None:
        if self.kind == "dir-dir" and self.n_components == 1:
            raise InvalidInputError(
                "n_components=1 with model='dir-dir' gives every zero probability 0: take at least 2 parts, or"
                " another model."
            )

    @cached_property
    def priors(self) -> Priors:
        """Parameters of the priors as arrays, one entry per part."""
        given = self.alpha, self.beta, self.concentration, self.activation_concentration
        return Priors(*(np.array(np.broadcast_to(part, self.n_components), dtype=np.float64) for part in given))

    def with_priors(self, values: Floats) -> BinaryModel:
        """The same model with other parameters: rows of ``values`` are those of `Priors`, columns are parts."""
        return replace(self, **dict(zip(Priors._fields, values, strict=True)))

    def simulate(self, key: Key, n_samples: int, n_features: int) -> SimulatedBits:
        """Draw factors and bits from the model, with the given parameters of the priors."""
        generator = key.for_stage("simulate").generator()
        priors = self.priors

        def beta(n_rows: int) -> Floats:
            return generator.beta(priors.alpha, priors.beta, size=(n_rows, self.n_components))

        dictionary = (
            beta(n_features) if self.kind == "dir-beta" else generator.dirichlet(priors.concentration, n_features)
        )
        if self.kind == "beta-dir":
            activations = beta(n_samples)
        else:
            own = priors.concentration if self.kind == "dir-beta" else priors.activation_concentration
            activations = generator.dirichlet(own, n_samples)
        bits = generator.random((n_samples, n_features)) < activations @ dictionary.T
        return SimulatedBits(bits.astype(np.int8), activations, dictionary)

    def log_prior(self, activations: Floats, dictionary: Floats) -> float:
        """Log density of the log odds or logarithms of both factors: finite, and with one mode, under every prior."""
        priors = self.priors
        if self.kind == "beta-dir":
            return self._log_beta(activations) + _log_dirichlet(dictionary, priors.concentration)
        if self.kind == "dir-beta":
            return self._log_beta(dictionary) + _log_dirichlet(activations, priors.concentration)
        own = _log_dirichlet(activations, priors.activation_concentration)
        return _log_dirichlet(dictionary, priors.concentration) + own

    def _log_beta(self, factor: Floats) -> float:
        alpha, beta = self.priors.alpha, self.priors.beta
        terms: Any = -betaln(alpha, beta) + xlogy(alpha, factor) + xlogy(beta, 1.0 - factor)
        return float(terms.sum())


def _log_dirichlet(factor: Floats, concentration: Floats) -> float:
    constant = gammaln(concentration.sum()) - gammaln(concentration).sum()
    return float(len(factor) * constant + xlogy(concentration, factor).sum())
