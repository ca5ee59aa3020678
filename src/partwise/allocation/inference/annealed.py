"""The best integer allocation by annealed collapsed Gibbs sampling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.inference.labels import check_tokens, label_type, padded_width, sweep
from partwise.allocation.kernels.annealed import sweep_annealed
from partwise.allocation.model import AllocationModel
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import first_tokens

# Shares of the sweeps after which cooling begins, and ends; the rest takes the best component for each token.
_WARM, _COOLED = 0.2, 0.9
_COLDEST = 30.0


@dataclass
class AnnealedState:
    """Labels and counts, chain by chain, and log p(S) of each chain."""

    labels: NDArray[Any]
    sample_counts: NDArray[np.int32]
    feature_counts: NDArray[np.int32]
    component_counts: NDArray[np.int64]
    log_allocation: NDArray[np.float64]

    @property
    def best(self) -> int:
        """The chain with the highest log p(S)."""
        return int(np.argmax(self.log_allocation))


@dataclass
class AnnealedGibbs:
    """Sweeps that draw from p(S)^c with c growing from 1 to 30, then ascend; the best of some chains counts."""

    model: AllocationModel
    n_sweeps: int
    n_chains: int
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: SparseData) -> AnnealedState:
        """Tokens take labels one after the other, each given those before it."""
        check_tokens(data, "inference='map'")
        model, (n_samples, n_features), n_chains = self.model, data.shape, self.n_chains
        n_components = model.n_components
        state = AnnealedState(
            np.full((n_chains, int(data.total)), n_components, label_type(n_components)),
            np.zeros((n_chains, n_samples, n_components), np.int32),
            np.zeros((n_chains, n_features, padded_width(n_components)), np.int32),
            np.zeros((n_chains, n_components), np.int64),
            np.full(n_chains, -np.inf),
        )

        def one(chain: int) -> None:
            counts = state.sample_counts[chain], state.feature_counts[chain], state.component_counts[chain]
            own = key.for_chain(chain).for_stage("init")
            sweep(own, data, model, (0, n_samples), state.labels[chain], *counts)

        self.engine.for_each(one, range(n_chains))
        return state

    def step(self, key: Key, data: SparseData, state: AnnealedState) -> tuple[AnnealedState, Mapping[str, float]]:
        """One sweep of every chain; reports the highest log p(S)."""
        model = self.model
        share = (key.iteration / self.n_sweeps - _WARM) / (_COOLED - _WARM)
        coldness = _COLDEST ** max(share, 0.0) if share < 1.0 else math.inf
        starts = first_tokens(data)

        def one(chain: int) -> None:
            log_factorials = sweep_annealed(
                data.indptr,
                data.indices,
                data.values,
                starts,
                model.dictionary_concentration,
                model.activation_concentration,
                coldness,
                *key.for_chain(chain).for_stage("annealed").words,
                state.labels[chain],
                state.sample_counts[chain],
                state.feature_counts[chain],
                state.component_counts[chain],
            )
            sums = state.sample_counts[chain], state.feature_counts[chain, :, : model.n_components]
            state.log_allocation[chain] = model.log_constant(data.row_sums) + model.log_sums(*sums) - log_factorials

        self.engine.for_each(one, range(self.n_chains))
        return state, {"objective": float(state.log_allocation.max()), "coldness": min(coldness, 1e300)}
