"""Estimators that threshold their input and are otherwise the originals: scikit-learn's checks pass reals."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from partwise import BinaryNMF, LogisticPCA


def thresholded(X: Any) -> Any:
    """The same object with bits in it; what is not numeric is left for the estimator to refuse."""
    if sp.issparse(X) and X.dtype.kind in "fiu":
        coo = X.tocoo(copy=True)
        coo.data = _bits(coo.data)
        return coo.asformat(X.format)
    if hasattr(X, "columns"):
        return X.apply(lambda column: _bits(column.to_numpy()) if column.dtype.kind in "fiu" else column)
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiu":
        return _bits(X)
    if not isinstance(X, np.ndarray) or X.dtype.kind == "O":
        try:
            return _bits(np.asarray(X, dtype=np.float64))
        except (TypeError, ValueError):
            return X
    return X


def _bits(values: np.ndarray) -> np.ndarray:
    """1 above 0.5, negative and infinite values as they are: they must be refused."""
    bits = np.where(values > 0.5, 1.0, 0.0)
    keep = ~np.isfinite(values) | (values < 0) if values.dtype.kind == "f" else values < 0
    return np.where(keep, values, bits).astype(values.dtype)


class Thresholding:
    """Thresholds what every method takes."""

    def _data(self, X: Any, **options: Any) -> Any:
        return super()._data(thresholded(X), **options)  # type: ignore[misc]


class ThresholdingBinaryNMF(Thresholding, BinaryNMF):
    pass


class ThresholdingLogisticPCA(Thresholding, LogisticPCA):
    pass
