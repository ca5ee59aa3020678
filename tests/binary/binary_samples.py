"""Small bits with missing cells that several test files use."""

from __future__ import annotations

import numpy as np

from partwise.binary.inference.cells import Cells
from partwise.core.data import BinaryMatrix


def planted(seed: int = 0, n_samples: int = 40, n_features: int = 25, missing: float = 0.1) -> np.ndarray:
    """Two kinds of samples that have two kinds of features; a share of the cells is NaN."""
    rng = np.random.default_rng(seed)
    kind, block = rng.integers(2, size=n_samples), rng.integers(2, size=n_features)
    X = (rng.random((n_samples, n_features)) < np.where(kind[:, None] == block, 0.9, 0.1)).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def cells_of(X: np.ndarray, kind: str = "beta-dir") -> Cells:
    return Cells.of(BinaryMatrix.build(X), kind)  # type: ignore[arg-type]
