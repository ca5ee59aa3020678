"""Data drawn from a model, with the truth beside them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from partwise.core.keys import Key, RandomState, key_from
from partwise.errors import InvalidInputError
from partwise.io import Table
from partwise.kernels.arrays import Floats
from partwise.poisson.model import PoissonModel


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
    key, generator = checked_key(n_samples, n_features, n_components, missing, random_state)
    check_positive(mean_total=mean_total, activation_shape=activation_shape)
    scale = mean_total / (n_components * activation_shape)
    activations = generator.gamma(activation_shape, scale, size=(n_samples, n_components))
    source = "simulated counts"
    return with_dirichlet_parts(key, generator, activations, n_features, dictionary_concentration, missing, source)


def with_dirichlet_parts(
    key: Key,
    generator: np.random.Generator,
    activations: Floats,
    n_features: int,
    concentration: float,
    missing: float,
    source: str,
) -> Simulated:
    """Poisson counts of given activations and of parts from a Dirichlet distribution."""
    check_positive(dictionary_concentration=concentration)
    dictionary = generator.dirichlet(np.full(n_features, concentration), size=activations.shape[1]).T.copy()
    counts = PoissonModel(activations, dictionary).simulate(key)
    return labelled(key, counts, activations, dictionary, missing, source)


def checked_key(
    n_samples: int, n_features: int, n_components: int, missing: float, random_state: RandomState
) -> tuple[Key, np.random.Generator]:
    """The key of a simulation, and the generator of its parameters.

    Sizes below 1, and shares of missing cells that leave nothing, are refused.
    """
    for argument, size in (("n_samples", n_samples), ("n_features", n_features), ("n_components", n_components)):
        if size < 1:
            raise InvalidInputError(f"{argument} must be at least 1, got {size}.")
    if not 0 <= missing < 1:
        raise InvalidInputError(f"missing must be a share from 0 to below 1, got {missing}.")
    key = key_from(random_state)
    return key, key.for_stage("simulate parameters").generator()


def check_positive(**values: float) -> None:
    """Refuse parameters that are not positive and finite."""
    for argument, value in values.items():
        if not 0 < value < np.inf:
            raise InvalidInputError(f"{argument} must be positive and finite, got {value}.")


def labelled(key: Key, matrix: Any, activations: Floats, dictionary: Floats, missing: float, source: str) -> Simulated:
    """What was drawn as a table with names, some of its cells marked as not observed, and the truth beside it."""
    n_samples, n_features = matrix.shape
    hidden = None
    if missing:
        draws = key.for_stage("simulate missing").generator().random((n_samples, n_features))
        hidden = sp.csr_array(draws < missing)
    samples = np.array([f"sample{n}" for n in range(n_samples)])
    features = np.array([f"feature{f}" for f in range(n_features)])
    table = Table(sp.csr_array(matrix), samples, features, hidden, source)
    return Simulated(table, np.ascontiguousarray(activations), np.ascontiguousarray(dictionary))
