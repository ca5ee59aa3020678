"""CVB0 (Asuncion et al. 2009): Gibbs updates with expected counts instead of counts, without each token's own."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.inference.labels import first_feature_counts
from partwise.allocation.inference.learning import EVERY, fixed_point
from partwise.allocation.kernels.collapsed import sweep_responsibilities
from partwise.allocation.model import AllocationModel, Concentrations
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.poisson.inference.state import Start

# Each update of the concentrations moves this share of the way.
_FIXED_POINTS = 5


@dataclass
class ResponsibilityState:
    """Responsibilities, nonzeros x parts, and the expected counts that they sum to."""

    responsibilities: NDArray[np.float32]
    sample_counts: Floats
    feature_counts: Floats
    component_counts: Floats
    dictionary_concentration: Floats
    activation_concentration: Floats


@dataclass
class AllocationCollapsedVariational:
    """A step updates all nonzeros in turn. It is serial, because each update changes the counts for the next."""

    model: AllocationModel
    engine: Engine = field(compare=False)
    start: Start = "random"

    def init(self, key: Key, data: SparseData) -> ResponsibilityState:
        """Spread each nonzero as KL-NMF spreads its feature."""
        feature_counts = first_feature_counts(key, data, self.model, self.start, self.engine)
        totals = feature_counts.sum(axis=1, keepdims=True)
        rounded = (feature_counts / np.where(totals > 0, totals, 1.0)).astype(np.float32)
        # Sum what is stored: inexact sums could fall below 0 when a token is taken out.
        shares = rounded.astype(np.float64)
        feature_counts = shares * data.column_sums[:, None]
        sample_counts = np.asarray(data.to_scipy() @ shares)
        responsibilities = rounded[data.indices]
        counts = sample_counts, feature_counts, feature_counts.sum(axis=0)
        return ResponsibilityState(responsibilities, *counts, *self.model.concentrations)

    def step(
        self, key: Key, data: SparseData, state: ResponsibilityState
    ) -> tuple[ResponsibilityState, Mapping[str, float]]:
        """One pass; reports the mean change of a token's responsibilities."""
        # Recompute the sums, so that rounding errors do not accumulate from pass to pass.
        np.sum(state.feature_counts, axis=0, out=state.component_counts)
        cells = data.indptr, data.indices, data.values
        priors = Concentrations(state.dictionary_concentration, state.activation_concentration)
        counts = state.sample_counts, state.feature_counts, state.component_counts
        change = sweep_responsibilities(cells, (priors[0], priors[1]), state.responsibilities, counts)
        if self.model.estimated and key.iteration % EVERY == 0:
            model = self.model.with_concentrations(priors)
            for _ in range(_FIXED_POINTS):
                model = model.with_concentrations(fixed_point(model, state.sample_counts, state.feature_counts))
            state.dictionary_concentration, state.activation_concentration = model.concentrations
        return state, {"change": change / max(data.total, 1.0)}


def check_memory(data: SparseData, n_components: int, most_bytes: float) -> None:
    """Refuse a fit whose responsibilities would take more than this many bytes."""
    needed = 4.0 * data.nnz * n_components
    if needed > most_bytes:
        raise InvalidInputError(
            f"inference='cvb0' keeps {data.nnz} x {n_components} responsibilities, {needed / 1e9:.3g} GB, and"
            f" max_memory is {most_bytes / 1e9:.3g} GB: use 'gibbs' or 'vb', or raise max_memory."
        )
