"""Arrays of Dask whose chunks are sparse or dense matrices, taken a row of chunks at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp


def is_chunked(X: Any) -> bool:
    """Whether it is an array of Dask."""
    return hasattr(X, "dask") and hasattr(X, "chunks") and hasattr(X, "to_delayed")


def has_sparse_chunks(X: Any) -> bool:
    """Whether it is an array of Dask with chunks that NumPy does not know how to join."""
    return is_chunked(X) and X.ndim == 2 and not isinstance(getattr(X, "_meta", None), np.ndarray)


def rows_of_chunks(array: Any) -> Iterator[Any]:
    """The rows of chunks of an array of Dask, one after the other; empty ones are left out."""
    from dask.base import compute

    for row in array.to_delayed():
        whole = joined(compute(*row))  # type: ignore[no-untyped-call]  # of Dask
        if whole.shape[0]:
            yield whole


def joined(chunks: Sequence[Any]) -> Any:
    """A row of chunks as one matrix; a single one is left as it is, unless it is of the package ``sparse``."""
    matrices = [chunk.to_scipy_sparse() if hasattr(chunk, "to_scipy_sparse") else chunk for chunk in chunks]
    return matrices[0] if len(matrices) == 1 else sp.csr_array(sp.hstack(list(map(sp.csr_array, matrices))))
