"""Simulate data from a model, together with the true parameters.

Also, simulate counts of samples in batches.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from partwise.core.keys import Key, RandomState, key_from
from partwise.core.validation import positive_each
from partwise.errors import InvalidInputError
from partwise.io import Table
from partwise.kernels.arrays import Floats
from partwise.poisson.model import PoissonModel


class Simulated(NamedTuple):
    """Simulated data, and the true activations (samples x parts) and dictionary (features x parts)."""

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

    Activations are gamma distributed, and the columns of the dictionary are Dirichlet.

    Parameters
    ----------
    n_samples, n_features, n_components
        Sizes.
    mean_total
        Expected sum of a sample.
    activation_shape
        Shape of the gamma distribution of activations. Smaller values give fewer parts per sample.
    dictionary_concentration
        Concentration of the Dirichlet distribution of parts. Smaller values give fewer features per part.
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


def simulate_gamma_poisson(
    n_samples: int,
    n_features: int,
    n_components: int,
    *,
    shape: Any = 0.3,
    mean_total: float = 100.0,
    dictionary_concentration: float = 0.1,
    missing: float = 0.0,
    random_state: RandomState = None,
) -> Simulated:
    """Counts from the model of `partwise.GammaPoissonNMF`: h_nk ~ Gamma(shape_k), x_nf ~ Poisson(Σ_k h_nk w_fk).

    Parameters
    ----------
    n_samples, n_features, n_components
        Sizes.
    shape
        Shape of the gamma distributions of activations: a number, or one per part. A part with a larger shape holds
        more.
    mean_total
        Expected sum of a sample.
    dictionary_concentration
        Concentration of the Dirichlet distribution of parts.
    missing
        Share of the cells that are marked as not observed.
    random_state
        Seed: int, Generator, RandomState or None.

    Returns
    -------
    Simulated
        ``table, activations, dictionary``.

    Examples
    --------
    >>> from partwise.datasets import simulate_gamma_poisson
    >>> simulate_gamma_poisson(20, 8, 3, random_state=0).table.shape
    (20, 8)
    """
    key, generator = checked_key(n_samples, n_features, n_components, missing, random_state)
    check_positive(mean_total=mean_total)
    shapes = positive_each(shape, "shape", n_components)
    activations = generator.gamma(shapes, mean_total / shapes.sum(), size=(n_samples, n_components))
    source = "simulated Gamma-Poisson counts"
    return with_dirichlet_parts(key, generator, activations, n_features, dictionary_concentration, missing, source)


def with_dirichlet_parts(
    key: Key, rng: np.random.Generator, activations: Floats, n_features: int, alpha: float, missing: float, source: str
) -> Simulated:
    """Poisson counts for given activations, with parts from a Dirichlet distribution."""
    check_positive(dictionary_concentration=alpha)
    dictionary = rng.dirichlet(np.full(n_features, alpha), size=activations.shape[1]).T.copy()
    return labelled(key, PoissonModel(activations, dictionary).simulate(key), activations, dictionary, missing, source)


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
    """Turn simulated values into a table with names, mark some cells as missing, and add the true parameters."""
    n_samples, n_features = matrix.shape
    hidden = None
    if missing:
        hidden = sp.csr_array(key.for_stage("simulate missing").generator().random((n_samples, n_features)) < missing)
    samples = np.array([f"sample{n}" for n in range(n_samples)])
    features = np.array([f"feature{f}" for f in range(n_features)])
    table = Table(sp.csr_array(matrix), samples, features, hidden, source)
    return Simulated(table, np.ascontiguousarray(activations), np.ascontiguousarray(dictionary))


_ROWS_AT_ONCE = 500


def simulate_batches(
    n_samples: int,
    n_features: int,
    *,
    n_groups: int = 8,
    n_shared: int = 4,
    n_batches: int = 4,
    mean_total: float = 1500.0,
    effect: float = 0.7,
    random_state: RandomState = None,
) -> Simulated:
    """Counts of samples with one group each, some shared parts, and one of several batches.

    In a study of cells, groups are cell types and shared parts are programmes. Each batch multiplies the rate of each
    feature by its own factor; half of the factors are 1.

    Parameters
    ----------
    n_samples, n_features
        Sizes.
    n_groups, n_shared, n_batches
        Number of groups (each with its own part), of parts that samples of all groups may have, and of batches.
    mean_total
        Approximate expected sum of a sample.
    effect
        Standard deviation of the logarithm of the batch factors that are not 1.
    random_state
        Seed: int, Generator, RandomState or None.

    Returns
    -------
    Simulated
        ``table, activations, dictionary``; ``table.metadata`` has ``batch`` and ``group``. Parts of groups come first.

    Examples
    --------
    >>> from partwise.datasets import simulate_batches
    >>> table, activations, dictionary = simulate_batches(50, 30, n_groups=3, n_shared=1, random_state=0)
    >>> dictionary.shape, sorted(str(batch) for batch in set(table.metadata["batch"]))
    ((30, 4), ['batch0', 'batch1', 'batch2', 'batch3'])
    """
    n_parts = n_groups + n_shared
    key, generator = checked_key(n_samples, n_features, n_parts, 0.0, random_state)
    check_positive(mean_total=mean_total)
    if n_batches < 1 or n_groups < 1 or n_shared < 0 or effect < 0:
        raise InvalidInputError("n_batches and n_groups must be at least 1, n_shared and effect at least 0.")
    frequencies = generator.gamma(1.0, size=n_features)
    own = generator.normal(0.0, 1.2, (n_groups, n_features)) * (generator.random((n_groups, n_features)) < 0.25)
    shared = np.where(generator.random((n_shared, n_features)) < 0.08, 15.0, 0.2)
    parts = frequencies * np.concatenate((np.exp(own), shared))
    parts /= parts.sum(axis=1, keepdims=True)
    group = generator.integers(n_groups, size=n_samples)
    batch = generator.integers(n_batches, size=n_samples)
    activations = np.zeros((n_samples, n_parts))
    activations[np.arange(n_samples), group] = 1.0
    used = generator.random((n_samples, n_shared)) < 0.5
    activations[:, n_groups:] = generator.gamma(0.5, 0.4, size=(n_samples, n_shared)) * used
    activations *= (mean_total * generator.lognormal(0.0, 0.4, n_samples) / activations.sum(axis=1))[:, None]
    differs = generator.random((n_batches, n_features)) < 0.5
    factors = np.exp(generator.normal(0.0, effect, (n_batches, n_features)) * differs)
    factors /= factors.mean(axis=0)
    noise = key.for_stage("simulate").generator()
    blocks = []
    for start in range(0, n_samples, _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        blocks.append(sp.csr_array(noise.poisson((activations[rows] @ parts) * factors[batch[rows]]).astype(np.int32)))
    found = labelled(key, sp.vstack(blocks, format="csr"), activations, parts.T, 0.0, "simulated batches")
    obs = {"batch": np.array([f"batch{b}" for b in batch]), "group": np.array([f"group{g}" for g in group])}
    return found._replace(table=replace(found.table, metadata=obs))
