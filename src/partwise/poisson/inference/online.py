"""On-line EM: the dictionary from running averages over batches, so that data may come in pieces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.poisson.inference.activations import solve_activations
from partwise.poisson.inference.passes import Side
from partwise.poisson.inference.state import FLOOR, Floors
from partwise.poisson.inference.units import usual_size
from partwise.priors.flat import FlatPrior

Floats = NDArray[np.float64]

_FORGETTING = 0.7


@dataclass(frozen=True)
class OnlineStatistics:
    """Averages over the samples seen, of expected allocations (features x components) and of exposures."""

    allocations: Floats
    exposure: Floats
    n_samples: int

    @classmethod
    def of_dictionary(cls, dictionary: Floats, mean_activations: Floats, n_samples: int) -> OnlineStatistics:
        """What a dictionary that was fitted to ``n_samples`` stands for; with 0 of them it is a start only."""
        exposure = np.repeat(mean_activations[None, :], dictionary.shape[0], axis=0)
        return cls(dictionary * exposure, exposure, n_samples)

    @property
    def dictionary(self) -> Floats:
        """The rate of each feature in each component, columns summing to 1; none is 0, so that any may rise yet."""
        rates = FlatPrior().rates(self.allocations, self.exposure)
        rates = np.maximum(rates, FLOOR * rates.max(axis=0))
        # A component without allocations is even, and free to become something.
        sums = rates.sum(axis=0)
        normalised: Floats = np.where(sums > 0, rates, 1.0) / np.where(sums > 0, sums, rates.shape[0])
        return normalised


def absorb(statistics: OnlineStatistics, data: SparseData, engine: Engine) -> OnlineStatistics:
    """Take in a batch: solve its activations under the present dictionary, then move the averages towards it.

    The weight of batch t is t^-0.7 (Cappé & Moulines 2009), where t - 1 is the number of samples seen before in units
    of this batch.
    """
    n_samples = data.shape[0]
    data, exponent = usual_size(data)
    dictionary = statistics.dictionary
    activations = solve_activations(data, dictionary, engine, tol=1e-4)
    activations = np.maximum(activations, Floors.of(data, dictionary.shape[1]).activations[:, None])
    features = Side(data.transposed, engine)
    counts, _ = features.expected_counts(dictionary, activations)
    exposure = features.exposure(activations)
    weight = (1.0 + statistics.n_samples / n_samples) ** -_FORGETTING
    return OnlineStatistics(
        (1.0 - weight) * statistics.allocations + weight * np.ldexp(counts / n_samples, exponent),
        (1.0 - weight) * statistics.exposure + weight * np.ldexp(exposure / n_samples, exponent),
        statistics.n_samples + n_samples,
    )
