"""Negative-binomial factorization as a model: x_nf ~ Poisson(ε_nf Σ_k h_nk w_fk), ε_nf ~ Gamma(r, r)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, xlogy

from partwise.core.keys import Key
from partwise.kernels.arrays import Floats


def log_probabilities(counts: Floats, rates: Floats, sizes: Any) -> Floats:
    """Log probability of each count, with mean ``rates`` and variance ``rates + rates² / sizes``.

    Parameters
    ----------
    counts, rates, sizes
        Arrays that go together by NumPy's rules.
    """
    logs = gammaln(counts + sizes) - gammaln(sizes) - gammaln(counts + 1.0)
    return np.asarray(logs - sizes * np.log1p(rates / sizes) + xlogy(counts, rates / (rates + sizes)))


def draw(rates: Floats, sizes: Any, generator: np.random.Generator) -> Floats:
    """Counts with these means and sizes.

    Parameters
    ----------
    rates, sizes
        Arrays that go together by NumPy's rules.
    generator
        Source of random numbers.
    """
    noise = generator.gamma(np.broadcast_to(sizes, rates.shape)) / sizes
    return np.asarray(generator.poisson(np.maximum(rates, 0.0) * noise), dtype=np.float64)


@dataclass(frozen=True)
class NegativeBinomialModel:
    """Activations (samples x components), dictionary (features x components), and size r (of all, or an array).

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.core.keys import Key
    >>> model = NegativeBinomialModel(np.full((4, 1), 2.0), np.full((3, 1), 5.0), 2.0)
    >>> model.simulate(Key(0)).shape
    (4, 3)
    """

    activations: Floats
    dictionary: Floats
    sizes: Any

    def rates(self) -> Floats:
        """The expected count of every cell, dense."""
        return self.activations @ self.dictionary.T

    def simulate(self, key: Key) -> Any:
        """Counts drawn from the model, as a CSR array."""
        return sp.csr_array(draw(self.rates(), self.sizes, key.for_stage("simulate").generator()).astype(np.int64))

    def log_likelihood(self, counts: Floats) -> float:
        """Of dense counts; NaN is missing."""
        return float(np.nansum(log_probabilities(counts, self.rates(), self.sizes)))
