"""On-line EM: the dictionary from running averages over batches, so that data may come in pieces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.poisson.inference.activations import solve_activations
from partwise.poisson.inference.passes import Side
from partwise.poisson.inference.state import FLOOR

Floats = NDArray[np.float64]

_DELAY, _FORGETTING = 1.0, 0.7


@dataclass(frozen=True)
class OnlineStatistics:
    """Running averages, per sample, of expected allocations (features x components) and of exposures."""

    allocations: Floats
    exposure: Floats
    n_batches: int

    @property
    def dictionary(self) -> Floats:
        """The rate of each feature in each component, columns summing to 1."""
        rates = np.maximum(self.allocations, 0.0) / np.maximum(self.exposure, 1e-300)
        rates = np.maximum(rates, FLOOR * rates.max(axis=0, initial=1e-300))
        normalised: Floats = rates / rates.sum(axis=0)
        return normalised


def absorb(
    statistics: OnlineStatistics | None, data: SparseData, dictionary: Floats, engine: Engine
) -> OnlineStatistics:
    """Take in a batch: solve its activations under the present dictionary, then move the averages towards it.

    The weight of batch t is (t + 1)^-0.7 (Cappé & Moulines 2009), the first one's 1.
    """
    activations = np.maximum(solve_activations(data, dictionary, engine, tol=1e-4), FLOOR)
    features = Side(data.transposed, engine)
    counts, _ = features.expected_counts(dictionary, activations)
    n_samples = data.shape[0]
    allocations = counts / n_samples
    exposure = np.broadcast_to(features.exposure(activations), counts.shape) / n_samples
    if statistics is None:
        return OnlineStatistics(allocations, exposure, 1)
    weight = (statistics.n_batches + _DELAY) ** -_FORGETTING
    return OnlineStatistics(
        (1.0 - weight) * statistics.allocations + weight * allocations,
        (1.0 - weight) * statistics.exposure + weight * exposure,
        statistics.n_batches + 1,
    )
