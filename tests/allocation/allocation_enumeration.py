"""Every allocation of tiny data, one by one: the ground truth of all samplers and estimators."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from scipy.special import logsumexp

from partwise.allocation.model import AllocationModel


def splits(count: int, n_parts: int) -> list[tuple[int, ...]]:
    return [split for split in itertools.product(range(count + 1), repeat=n_parts) if sum(split) == count]


def allocations(counts: np.ndarray, n_components: int) -> Iterator[np.ndarray]:
    """All nonnegative integer S with S_nf+ = counts."""
    for choice in itertools.product(*(splits(int(count), n_components) for count in counts.ravel())):
        yield np.array(choice).reshape(*counts.shape, n_components)


def log_marginal(counts: np.ndarray, model: AllocationModel) -> float:
    return float(logsumexp([model.log_allocation(s) for s in allocations(counts, model.n_components)]))


def posterior(counts: np.ndarray, model: AllocationModel) -> tuple[list[np.ndarray], np.ndarray]:
    """All allocations, and their probabilities given the counts."""
    every = list(allocations(counts, model.n_components))
    logs = np.array([model.log_allocation(s) for s in every])
    return every, np.exp(logs - logsumexp(logs))
