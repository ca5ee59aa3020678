"""Gamma-Poisson factorization as a model: to simulate data, and to check inference."""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from partwise.core.keys import Key
from partwise.core.run import Algorithm
from partwise.engines.base import Engine
from partwise.kernels.arrays import Floats
from partwise.poisson.model import PoissonModel


@dataclass(frozen=True, eq=False)
class GammaPoissonModel:
    """h_nk ~ Gamma(a_k, rate b_k), x_nf ~ Poisson(Σ_k w_fk h_nk), with the dictionary w a free parameter (GaP, 1-2).

    Parameters
    ----------
    dictionary
        Features x parts, nonnegative.
    shape, rate
        a_k and b_k: numbers, or one per part.

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

    def simulate(self, key: Key, n_samples: int) -> Any:
        """Counts of new samples, as a CSR array.

        Parameters
        ----------
        key
            Key of the random numbers.
        n_samples
            Number of samples.
        """
        # Use another stage than the Poisson model's own draws.
        rng = key.for_stage("simulate activations").generator()
        activations = rng.gamma(self.shape, 1.0 / self.rate, size=(n_samples, self.shape.size))
        return PoissonModel(activations, self.dictionary).simulate(key)


class GammaPoissonAlgorithm(Algorithm[Any], Protocol):
    """An algorithm whose states represent a model."""

    def model(self, state: Any) -> GammaPoissonModel:
        """Dictionary, shapes and rates of a state."""


@dataclass(kw_only=True)
class MarginalEM:
    """What the EM algorithms for the marginal likelihood share.

    Attributes
    ----------
    shape, rate
        a_k and b_k of each part.
    estimate_shape
        Whether shapes are estimated, too; they then start at ``shape``.
    start
        First dictionary, features x parts; None = the algorithm's own.
    engine
        Where blocks of rows are processed.
    """

    shape: Floats
    rate: Floats
    estimate_shape: bool = False
    start: Floats | None = None
    engine: Engine = field(compare=False)

    def model(self, state: Any) -> GammaPoissonModel:
        """Dictionary, shapes and rates of a state."""
        return GammaPoissonModel(state.dictionary, state.shape, self.rate)

    def rebase(self, state: Any, change: float) -> None:
        """Nothing to do: states store no objective that steps are judged by."""


def column_norms(dictionary: Floats) -> dict[str, float]:
    """w_+k of each part, as columns of a trace, which `partwise.plotting.plot_column_norms` draws."""
    return {f"column_norm_{k}": float(norm) for k, norm in enumerate(dictionary.sum(axis=0))}
