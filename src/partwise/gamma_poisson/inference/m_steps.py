"""M-steps: the dictionary from expected or sampled allocations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.passes.side import Side
from partwise.priors.flat import FlatPrior

Floats = NDArray[np.float64]

# A dictionary entry of a feature that has counts never becomes 0 by rounding: expected allocations divide by rates.
SMALLEST_ENTRY = 1e-100


def marginal_step(feature_counts: Floats, n_samples: int, shape: Floats, rate: Floats) -> Floats:
    """w_fk = (b_k / a_k) (1/N) Σ_n c_nfk (GaP, Eq. 48): activations are integrated out."""
    return feature_counts * (rate / (shape * n_samples))


def conditional_step(feature_counts: Floats, exposure: Floats) -> Floats:
    """w_fk = Σ_n c_nfk / Σ_n h_nk (GaP, Eq. 41 and, with expected counts, 42), the sums over observed cells."""
    return FlatPrior().rates(feature_counts, exposure)


def expected_missing(data: SparseData, dictionary: Floats, activations: Any, engine: Engine) -> Floats | float:
    """Σ over the samples in which f is missing of w_fk E[h_nk]: what the missing cells add to the allocations."""
    if not data.n_missing:
        return 0.0
    totals = Side(data, engine).totals(activations)
    hidden = totals - Side(data.transposed, engine).exposure(activations, totals=totals)
    return np.asarray(dictionary * np.maximum(hidden, 0.0))
