"""Poisson factorization as a model: x_nf ~ Poisson(Σ_k h_nk w_fk), with both factors free parameters."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.kernels.arrays import Floats
from partwise.passes.side import cell_rates


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

    def log_likelihood(self, data: SparseData) -> float:
        """Σ x log rate - rate - log x! over the observed cells; -inf where a count has rate 0."""
        n_rows, _ = data.shape
        rows = np.repeat(np.arange(n_rows), np.diff(data.indptr))
        rates = cell_rates(self.activations, self.dictionary, rows, data.indices)
        missing_rows = np.repeat(np.arange(n_rows), np.diff(data.missing_indptr))
        hidden = cell_rates(self.activations, self.dictionary, missing_rows, data.missing_indices).sum()
        expected = self.activations.sum(axis=0) @ self.dictionary.sum(axis=0) - hidden
        with np.errstate(divide="ignore"):
            logs = data.values * np.log(rates)
        return float(logs.sum() - expected - gammaln(data.values + 1.0).sum())
