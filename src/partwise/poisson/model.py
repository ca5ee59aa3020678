"""Poisson factorization as a model: x_nf ~ Poisson(Σ_k h_nk w_fk), with both factors free parameters."""

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from partwise.core.keys import Key
from partwise.kernels.arrays import Floats


@dataclass(frozen=True)
class PoissonModel:
    """Activations (samples x parts) and dictionary (features x parts), both nonnegative.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.core.keys import Key
    >>> model = PoissonModel(np.full((4, 1), 2.0), np.full((3, 1), 5.0))
    >>> model.simulate(Key(0)).shape
    (4, 3)
    """

    activations: Floats
    dictionary: Floats

    def rates(self) -> Floats:
        """The expected count of every cell, dense."""
        return self.activations @ self.dictionary.T

    def simulate(self, key: Key) -> Any:
        """Counts drawn from the model, as a CSR array."""
        return sp.csr_array(key.for_stage("simulate").generator().poisson(self.rates()))
