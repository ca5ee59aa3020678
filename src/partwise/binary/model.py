"""The three mean-parameterised models of bits (Lumbreras, Filstroff & Févotte 2020), with their priors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats

Kind = Literal["beta-dir", "dir-beta", "dir-dir"]

KINDS: tuple[Kind, ...] = ("beta-dir", "dir-beta", "dir-dir")

# Rows of probabilities that are in memory at once, times columns.
_CELLS_AT_ONCE = 2**22


class SimulatedBits(NamedTuple):
    """Bits (samples x features), activations (samples x components) and dictionary (features x components)."""

    bits: NDArray[np.int8]
    activations: Floats
    dictionary: Floats


@dataclass(frozen=True)
class BinaryModel:
    """P(x_nf = 1) = Σ_k w_fk h_nk, where the priors of the two factors keep the sum below 1.

    - ``"beta-dir"``: w_f. ~ Dirichlet(concentration), h_nk ~ Beta(alpha, beta);
    - ``"dir-beta"``: w_fk ~ Beta(alpha, beta), h_n. ~ Dirichlet(concentration): Beta-Dir on the transposed matrix;
    - ``"dir-dir"``: w_f. ~ Dirichlet(concentration), h_n. ~ Dirichlet(activation_concentration).

    All Dirichlet distributions are over components and symmetric; their parameters are those of one component.

    Examples
    --------
    >>> from partwise.core.keys import Key
    >>> BinaryModel("dir-dir", 3).simulate(Key(0), 5, 4).bits.shape
    (5, 4)
    """

    kind: Kind
    n_components: int
    alpha: float = 1.0
    beta: float = 1.0
    concentration: float = 1.0
    activation_concentration: float = 1.0

    def __post_init__(self) -> None:
        if self.kind == "dir-dir" and self.n_components == 1:
            raise InvalidInputError(
                "n_components=1 with model='dir-dir' gives every zero probability 0: take at least 2 components, or"
                " another model."
            )

    def simulate(self, key: Key, n_samples: int, n_features: int) -> SimulatedBits:
        """Factors and bits drawn from the model."""
        generator = key.for_stage("simulate").generator()

        def dirichlet(n_rows: int, concentration: float) -> Floats:
            return generator.dirichlet(np.full(self.n_components, concentration), size=n_rows)

        def beta(n_rows: int) -> Floats:
            return generator.beta(self.alpha, self.beta, size=(n_rows, self.n_components))

        dictionary = beta(n_features) if self.kind == "dir-beta" else dirichlet(n_features, self.concentration)
        if self.kind == "beta-dir":
            activations = beta(n_samples)
        else:
            own = self.concentration if self.kind == "dir-beta" else self.activation_concentration
            activations = dirichlet(n_samples, own)
        bits = generator.random((n_samples, n_features)) < activations @ dictionary.T
        return SimulatedBits(bits.astype(np.int8), activations, dictionary)

    def log_likelihood(self, data: SparseData, activations: Floats, dictionary: Floats) -> float:
        """Σ log P(x_nf) over the observed cells; -inf where what was seen has probability 0.

        The probability of a zero is a sum of positive terms, not 1 - P(1), which would round.
        """
        if self.kind == "dir-beta":
            ones, zeros = (activations, dictionary), (activations, 1.0 - dictionary)
        else:
            ones, zeros = (activations, dictionary), (1.0 - activations, dictionary)
        n_rows, n_columns = data.shape
        step = max(1, _CELLS_AT_ONCE // n_columns)
        total = 0.0
        for start in range(0, n_rows, step):
            part = data.rows(start, min(start + step, n_rows))
            rows = slice(start, start + step)
            bits = part.to_scipy().toarray().astype(bool)
            seen = ~part.missing_matrix().toarray()
            probability = np.where(bits, ones[0][rows] @ ones[1].T, zeros[0][rows] @ zeros[1].T)
            with np.errstate(divide="ignore"):
                total += float(np.log(probability[seen]).sum())
        return total

    def log_prior(self, activations: Floats, dictionary: Floats) -> float:
        """Log density of both factors (+inf where a concentration below 1 meets an exact zero)."""
        if self.kind == "beta-dir":
            return self._log_beta(activations) + _log_dirichlet(dictionary, self.concentration)
        if self.kind == "dir-beta":
            return self._log_beta(dictionary) + _log_dirichlet(activations, self.concentration)
        return _log_dirichlet(dictionary, self.concentration) + _log_dirichlet(
            activations, self.activation_concentration
        )

    def log_joint(self, data: SparseData, activations: Floats, dictionary: Floats) -> float:
        """The logarithm of p(X, activations, dictionary) of the observed cells."""
        return self.log_likelihood(data, activations, dictionary) + self.log_prior(activations, dictionary)

    def _log_beta(self, factor: Floats) -> float:
        constant = gammaln(self.alpha + self.beta) - gammaln(self.alpha) - gammaln(self.beta)
        terms: Any = constant + xlogy(self.alpha - 1.0, factor) + xlogy(self.beta - 1.0, 1.0 - factor)
        return float(terms.sum())


def _log_dirichlet(factor: Floats, concentration: float) -> float:
    n_rows, n_components = factor.shape
    constant = gammaln(n_components * concentration) - n_components * gammaln(concentration)
    return float(n_rows * constant + xlogy(concentration - 1.0, factor).sum())
