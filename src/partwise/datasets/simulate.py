"""Data drawn from a model, with the truth beside them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from partwise.core.keys import RandomState, key_from
from partwise.errors import InvalidInputError
from partwise.io import Table
from partwise.poisson.model import PoissonModel

Floats = NDArray[np.float64]


class Simulated(NamedTuple):
    """Simulated data, and the activations (samples x components) and dictionary (features x components) behind them."""

    table: Table
    activations: Floats
    dictionary: Floats


def simulate_poisson(
    n_samples: int,
    n_features: int,
    n_components: int,
    *,
    mean_total: float = 100.0,
    activation_shape: float = 0.5,
    dictionary_concentration: float = 0.1,
    missing: float = 0.0,
    random_state: RandomState = None,
) -> Simulated:
    """Counts from Poisson factorization: x_nf ~ Poisson(Σ_k h_nk w_fk).

    Activations are gamma distributed, the columns of the dictionary Dirichlet.

    Parameters
    ----------
    n_samples, n_features, n_components
        Sizes.
    mean_total
        Expected sum of a sample.
    activation_shape
        Shape of the gamma distribution of activations; the smaller, the fewer parts in a sample.
    dictionary_concentration
        Concentration of the Dirichlet distribution of parts; the smaller, the fewer features in a part.
    missing
        Share of the cells that are marked as not observed, completely at random.
    random_state
        Seed: int, Generator, RandomState or None.

    Returns
    -------
    Simulated
        ``table, activations, dictionary``.

    Examples
    --------
    >>> from partwise.datasets import simulate_poisson
    >>> table, activations, dictionary = simulate_poisson(20, 8, 3, random_state=0)
    >>> table.shape, activations.shape, dictionary.shape
    ((20, 8), (20, 3), (8, 3))
    """
    for argument, size in (("n_samples", n_samples), ("n_features", n_features), ("n_components", n_components)):
        if size < 1:
            raise InvalidInputError(f"{argument} must be at least 1, got {size}.")
    for argument, value in (
        ("mean_total", mean_total),
        ("activation_shape", activation_shape),
        ("dictionary_concentration", dictionary_concentration),
    ):
        if not 0 < value < np.inf:
            raise InvalidInputError(f"{argument} must be positive and finite, got {value}.")
    if not 0 <= missing < 1:
        raise InvalidInputError(f"missing must be a share from 0 to below 1, got {missing}.")
    key = key_from(random_state)
    generator = key.for_stage("simulate parameters").generator()
    scale = mean_total / (n_components * activation_shape)
    activations = generator.gamma(activation_shape, scale, size=(n_samples, n_components))
    dictionary = generator.dirichlet(np.full(n_features, dictionary_concentration), size=n_components).T.copy()
    counts = PoissonModel(activations, dictionary).simulate(key)
    hidden = None
    if missing:
        draws = key.for_stage("simulate missing").generator().random((n_samples, n_features))
        hidden = sp.csr_array(draws < missing)
    samples = np.array([f"sample{n}" for n in range(n_samples)])
    features = np.array([f"feature{f}" for f in range(n_features)])
    return Simulated(Table(counts, samples, features, hidden, "simulated counts"), activations, dictionary)
