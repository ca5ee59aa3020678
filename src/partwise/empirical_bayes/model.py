"""Poisson factorization with a prior for each column of both factors (EB, section 6)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.core.keys import Key
from partwise.poisson.model import PoissonModel
from partwise.priors.mixture import GammaMixture


@dataclass(frozen=True)
class EmpiricalBayesModel:
    """h_nk ~ g_k, w_fk ~ g'_k, x_nf ~ Poisson(Σ_k h_nk w_fk).

    Attributes
    ----------
    activation_priors, dictionary_priors
        g_k and g'_k, one for each part.

    Examples
    --------
    >>> from partwise.core.keys import Key
    >>> sparse = GammaMixture([0.7, 0.3], [1.0, 2.0], [0.1, 5.0])
    >>> model = EmpiricalBayesModel((sparse, sparse), (sparse, sparse))
    >>> counts, factors = model.simulate(Key(0), 20, 10)
    >>> counts.shape
    (20, 10)
    """

    activation_priors: tuple[GammaMixture, ...]
    dictionary_priors: tuple[GammaMixture, ...]

    def simulate(self, key: Key, n_samples: int, n_features: int) -> tuple[Any, PoissonModel]:
        """Counts as a CSR array, and the factors behind them."""
        generator = key.for_stage("simulate factors").generator()
        activations = [prior.draw(n_samples, generator) for prior in self.activation_priors]
        dictionary = [prior.draw(n_features, generator) for prior in self.dictionary_priors]
        factors = PoissonModel(np.stack(activations, axis=1), np.stack(dictionary, axis=1))
        return factors.simulate(key), factors
