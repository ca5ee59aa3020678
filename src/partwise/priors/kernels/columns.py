"""What all mixture components of one shape have in common."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.jit import kernel
from partwise.priors.kernels.evidence import shape_constants
from partwise.priors.kernels.posterior import gamma_terms

Floats = NDArray[np.float64]


@kernel
def shape_column(counts: Floats, shape: float, out: Floats) -> None:
    """``out = gammaln(shape + counts) - gammaln(shape) - xlogy(counts, counts) + counts``."""
    constants = shape_constants(shape)
    for i in range(counts.size):
        out[i] = gamma_terms(counts[i], constants)[0]
