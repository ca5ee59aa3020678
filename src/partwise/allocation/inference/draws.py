"""What a sampler keeps: sums over draws of conditional means of the factors, and a few numbers of each draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.model import AllocationModel

Floats = NDArray[np.float64]


@dataclass
class Draws:
    """Sums by chain, as components have no identity between chains; numbers of each draw, chains x draws.

    ``activations`` are a list of one array per chain, which may be on workers. ``log_joint`` is log p(X, labels),
    ``n_active`` the number of components with a share worth naming, and ``evenness`` the chance that two tokens drawn
    at random are of different components.
    """

    dictionary: Floats
    activations: list[Any]
    component_tokens: Floats
    log_joint: Floats
    n_active: Floats
    evenness: Floats
    n_kept: int = 0

    @classmethod
    def empty(cls, shape: tuple[int, int], n_components: int, n_chains: int, n_draws: int) -> Draws:
        """Room for so many draws of so many chains."""
        n_samples, n_features = shape
        per_draw = np.full((3, n_chains, n_draws), np.nan)
        return cls(
            dictionary=np.zeros((n_chains, n_features, n_components)),
            activations=[np.zeros((n_samples, n_components)) for _ in range(n_chains)],
            component_tokens=np.zeros((n_chains, n_components)),
            log_joint=per_draw[0].copy(),
            n_active=per_draw[1].copy(),
            evenness=per_draw[2].copy(),
        )

    def keep(self, chain: int, model: AllocationModel, feature_counts: Floats, active: float) -> None:
        """Add the dictionary's conditional mean given the labels of one chain, and the numbers of this draw."""
        tokens = feature_counts.sum(axis=0)
        shares = tokens / max(float(tokens.sum()), 1.0)
        self.dictionary[chain] += model.expected_dictionary(feature_counts)
        self.component_tokens[chain] += tokens
        self.n_active[chain, self.n_kept] = np.count_nonzero(shares >= active)
        self.evenness[chain, self.n_kept] = 1.0 - np.square(shares).sum()

    @property
    def likeliest(self) -> int:
        """The chain with the highest mean log p(X, labels)."""
        return int(np.argmax(self.log_joint[:, : self.n_kept].mean(axis=1)))
