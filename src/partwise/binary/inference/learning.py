"""Priors for algorithms without draws: a short sampler learns them first, and the algorithm starts from its labels.

Priors cannot be learned from expected counts. Even responsibilities give even expected counts, for which a large
concentration is best, which keeps responsibilities even. Counts of drawn labels are as uneven as the data require.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.binary.inference.cells import Cells
from partwise.binary.inference.gibbs import BinaryCollapsedGibbs
from partwise.binary.inference.starts import Start
from partwise.binary.inference.variational import BinaryVariationalBayes, BinaryVariationalState
from partwise.binary.model import BinaryModel
from partwise.core.keys import Key
from partwise.engines.local import LocalEngine
from partwise.kernels.arrays import Floats

_SWEEPS = 200


class Learned(NamedTuple):
    """Learned priors (as for `BinaryModel.with_priors`), the final labels, ordered by columns, and their counts."""

    priors: Floats
    labels: NDArray[np.unsignedinteger]
    row_counts: Floats
    column_counts: Floats


def learn(key: Key, data: Cells, model: BinaryModel, start: Start = "random") -> Learned:
    """Run one chain of the collapsed sampler; priors are averages over its second half."""
    lengths: dict[str, Any] = {"n_draws": 1, "burn_in": _SWEEPS, "thin": 1, "n_chains": 1}
    sampler = BinaryCollapsedGibbs(model, start, **lengths, active_threshold=0.0, engine=LocalEngine(1))
    key = key.for_stage("learning")
    state = sampler.init(key, data)
    total = np.zeros_like(state.priors[0])
    for sweep in range(1, _SWEEPS + 1):
        sampler.sweep_all(key.at(sweep), data, state)
        if sweep > _SWEEPS // 2:
            total += state.priors[0]
    counts = (state.row_counts[0].astype(np.float64), state.column_counts[0].astype(np.float64))
    return Learned(total / (_SWEEPS - _SWEEPS // 2), state.labels[0], *counts)


class LearningVariationalBayes(BinaryVariationalBayes):
    """Variational Bayes that starts from the labels and priors of a short sampler."""

    def init(self, key: Key, data: Cells) -> BinaryVariationalState:
        """Counts of the labels that were drawn."""
        found = learn(key, data, self.model)
        return BinaryVariationalState(found.row_counts, found.column_counts, found.priors)
