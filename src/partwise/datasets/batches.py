"""Counts of samples that come in batches, with the truth beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from partwise.core.keys import RandomState
from partwise.datasets.simulate import Simulated, check_positive, checked_key, labelled
from partwise.errors import InvalidInputError

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
    """Counts of samples that belong to a group, use shared parts beside, and were measured in one of several batches.

    In a study of cells, groups are cell types and shared parts are programmes. Each batch multiplies the rate of each
    feature by a factor of its own; half of the factors are 1.

    Parameters
    ----------
    n_samples, n_features
        Sizes.
    n_groups, n_shared, n_batches
        Groups (each with a part of its own), parts that samples of all groups may have, and batches.
    mean_total
        Expected sum of a sample, about.
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
    totals = mean_total * generator.lognormal(0.0, 0.4, n_samples)
    activations *= (totals / activations.sum(axis=1))[:, None]
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
