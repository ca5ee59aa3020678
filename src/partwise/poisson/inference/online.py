"""Online EM: compute the dictionary from running averages over batches, so that data may arrive in pieces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.kernels.arrays import Floats
from partwise.passes.side import FLOOR, Floors
from partwise.poisson.inference.passes import PoissonSide, solve_activations
from partwise.poisson.inference.state import usual_size
from partwise.priors.flat import FlatPrior

_FORGETTING = 0.7
_PASSES = 30


@dataclass(frozen=True)
class OnlineStatistics:
    """Averages of expected allocations (features x parts) and exposures over the samples seen."""

    allocations: Floats
    exposure: Floats
    n_samples: int

    @classmethod
    def of_dictionary(cls, dictionary: Floats, mean_activations: Floats, n_samples: int) -> OnlineStatistics:
        """The averages for a dictionary that was fitted to ``n_samples``; with 0 samples it is only a start."""
        dictionary = np.ascontiguousarray(dictionary)
        exposure = np.repeat(mean_activations[None, :], dictionary.shape[0], axis=0)
        return cls(dictionary * exposure, exposure, n_samples)

    @property
    def dictionary(self) -> Floats:
        """The rate of each feature in each part. Columns sum to 1, and no rate is 0, so that any can still grow."""
        rates = FlatPrior().rates(self.allocations, self.exposure)
        rates = np.maximum(rates, FLOOR * rates.max(axis=0))
        # A part without allocations is even, so that it can still become something.
        sums = rates.sum(axis=0)
        return np.asarray(np.where(sums > 0, rates, 1.0) / np.where(sums > 0, sums, rates.shape[0]))


def absorb(statistics: OnlineStatistics, data: SparseData, engine: Engine) -> OnlineStatistics:
    """Add a batch: move the averages, the dictionary and the batch's activations towards it.

    The weight of batch t is t^-0.7 (Cappé & Moulines 2009), where t - 1 is the number of samples seen before in units
    of this batch. Several passes over the batch keep the earlier averages fixed, so that they and the batch's own
    averages agree on one dictionary. With a single pass, few large batches would give few EM steps.
    """
    n_samples = data.shape[0]
    weight = (1.0 + statistics.n_samples / n_samples) ** -_FORGETTING
    data, exponent = usual_size(data)
    samples, features = PoissonSide(data, engine), PoissonSide(data.transposed, engine)
    floors = Floors.of(data, statistics.allocations.shape[1]).activations
    moved, dictionary = statistics, statistics.dictionary
    activations = np.maximum(solve_activations(data, dictionary, engine, tol=1e-4), floors[:, None])
    for number in range(_PASSES):
        if number > 0:
            activations, _ = samples.coordinate_descent(activations, dictionary, floors=floors, max_sweeps=1)
        counts, _ = features.expected_counts(dictionary, activations)
        exposure = features.exposure(activations, totals=samples.totals(activations))
        moved = OnlineStatistics(
            (1.0 - weight) * statistics.allocations + weight * np.ldexp(counts / n_samples, exponent),
            (1.0 - weight) * statistics.exposure + weight * np.ldexp(exposure / n_samples, exponent),
            statistics.n_samples + n_samples,
        )
        dictionary = moved.dictionary
    return moved
