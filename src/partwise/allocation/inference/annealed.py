"""The best integer allocation by annealed collapsed Gibbs sampling."""

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.inference.labels import TokenLabels, check_tokens
from partwise.allocation.kernels.collapsed import sweep_annealed
from partwise.allocation.model import AllocationModel
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import first_tokens

# Shares of the sweeps after which cooling begins and ends; the rest takes the best part for each token.
_WARM, _COOLED = 0.2, 0.9
_COLDEST = 30.0


@dataclass
class AnnealedState(TokenLabels):
    """Labels and counts, chain by chain, and log p(S) of each chain."""

    log_allocation: NDArray[np.float64]

    @property
    def best(self) -> int:
        """The chain with the highest log p(S)."""
        return int(np.argmax(self.log_allocation))


@dataclass
class AnnealedGibbs:
    """Sweeps that draw from p(S)^c with c growing from 1 to 30, then ascend; the best of several chains is kept."""

    model: AllocationModel
    _: KW_ONLY
    n_sweeps: int
    n_chains: int
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: SparseData) -> AnnealedState:
        """Tokens get labels one after the other, each given those before it."""
        check_tokens(data, "inference='map'")
        reached = np.full(self.n_chains, -np.inf)
        state = AnnealedState.none_yet(data, self.model.n_components, self.n_chains, log_allocation=reached)

        def one(chain: int) -> None:
            state.sweep(key.for_chain(chain).for_stage("init"), data, self.model, chain)

        self.engine.for_each(one, range(self.n_chains))
        return state

    def step(self, key: Key, data: SparseData, state: AnnealedState) -> tuple[AnnealedState, Mapping[str, float]]:
        """One sweep of every chain; reports the highest log p(S)."""
        model = self.model
        share = (key.iteration / self.n_sweeps - _WARM) / (_COOLED - _WARM)
        coldness = _COLDEST ** max(share, 0.0) if share < 1.0 else math.inf
        tokens = data.indptr, data.indices, data.values, first_tokens(data)
        priors = model.dictionary_concentration, model.activation_concentration

        def one(chain: int) -> None:
            words = key.for_chain(chain).for_stage("annealed").words
            log_factorials = sweep_annealed(tokens, priors, coldness, words, state.of_chain(chain))
            sums = state.sample_counts[chain], state.feature_counts[chain][:, : model.n_components]
            state.log_allocation[chain] = model.log_constant(data.row_sums) + model.log_sums(*sums) - log_factorials

        self.engine.for_each(one, range(self.n_chains))
        return state, {"objective": float(state.log_allocation.max()), "coldness": min(coldness, 1e300)}
