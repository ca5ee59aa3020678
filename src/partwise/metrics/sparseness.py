"""How sparse a vector is, from 0 (all entries equal) to 1 (only one entry)."""

from typing import Any

import numpy as np

from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats


def hoyer_sparseness(values: Any, axis: int = -1) -> Floats:
    """Hoyer's sparseness, (√n - |x|₁ / |x|₂) / (√n - 1), of vectors with n entries along an axis.

    Parameters
    ----------
    values
        Vectors of at least two entries; signs do not matter.
    axis
        The axis along which each vector lies.

    Returns
    -------
    ndarray
        One number per vector: 0 if all entries are equal, 1 if all but one are zero, NaN for a vector of zeros.

    Examples
    --------
    >>> hoyer_sparseness([[1, 0, 0, 0], [2, 2, 2, 2], [1, 1, 0, 0]]).round(4).tolist()
    [1.0, 0.0, 0.5858]
    """
    sizes = np.abs(np.asarray(values, dtype=np.float64))
    if sizes.ndim == 0 or sizes.shape[axis] < 2:
        raise InvalidInputError(f"sparseness needs vectors of at least two entries, got shape {sizes.shape}.")
    if not np.all(np.isfinite(sizes)):
        raise InvalidInputError("sparseness needs finite numbers: remove NaN and infinity.")
    root = np.sqrt(sizes.shape[axis])
    # Divide by the largest entry, so that squares neither overflow nor underflow.
    largest = sizes.max(axis=axis, keepdims=True)
    scaled = np.divide(sizes, largest, out=np.zeros_like(sizes), where=largest > 0)
    norm = np.sqrt(np.square(scaled).sum(axis=axis))
    ratio = np.divide(scaled.sum(axis=axis), norm, out=np.full(norm.shape, np.nan), where=norm > 0)
    return np.asarray(np.clip((root - ratio) / (root - 1.0), 0.0, 1.0))
