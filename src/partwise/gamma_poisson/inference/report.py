"""What all algorithms of the family report alike."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from partwise.core.result import Trace
from partwise.core.run import Algorithm
from partwise.gamma_poisson.model import GammaPoissonModel

Floats = NDArray[np.float64]

_PREFIX = "column_norm_"


class GammaPoissonAlgorithm(Algorithm[Any], Protocol):
    """An algorithm whose states stand for a model."""

    def model(self, state: Any) -> GammaPoissonModel:
        """Dictionary, shapes and rates of a state."""


def column_norms(dictionary: Floats) -> dict[str, float]:
    """w_+k of each component, as columns of a trace."""
    return {f"{_PREFIX}{k}": float(norm) for k, norm in enumerate(dictionary.sum(axis=0))}


def traced_norms(trace: Trace, n_components: int) -> Floats:
    """Iterations x components."""
    if not len(trace):
        return np.empty((0, n_components))
    return np.column_stack([trace[f"{_PREFIX}{k}"] for k in range(n_components)])
