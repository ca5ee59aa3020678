"""A matrix as it was read or handed over: values, labels and missing cells, not yet checked to be counts or bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

Labels = np.ndarray[tuple[int], np.dtype[np.str_]]


@dataclass(frozen=True)
class Table:
    """A samples x features matrix with optional labels and missing cells.

    ``partwise.read`` returns one, and every estimator accepts one. Build one by hand to pass a sparse mask:
    ``Table(X, missing=mask)``.

    Parameters
    ----------
    matrix
        Dense array or SciPy sparse matrix. NaN (stored explicitly, if sparse) marks a missing cell too.
    row_labels, column_labels
        Names of samples and features, as arrays of str.
    missing
        Sparse or dense boolean matrix of the same shape, true where the cell was not observed.
    source
        Where the data came from, for messages.
    first_row
        What its first row is in the data that it is a part of, for messages.
    """

    matrix: Any
    row_labels: Labels | None = None
    column_labels: Labels | None = None
    missing: Any = None
    source: str = "X"
    first_row: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """Samples, features."""
        rows, columns = self.matrix.shape
        return int(rows), int(columns)

    def transpose(self) -> Table:
        """Swap samples and features."""
        return replace(
            self,
            matrix=self.matrix.T,
            row_labels=self.column_labels,
            column_labels=self.row_labels,
            missing=None if self.missing is None else self.missing.T,
        )

    def with_nan(self) -> Any:
        """The matrix, CSR or dense, with NaN in missing cells."""
        sparse = sp.issparse(self.matrix)
        matrix = sp.csr_array(self.matrix) if sparse else np.asarray(self.matrix)
        if self.missing is None:
            return matrix
        missing = sp.csr_array(self.missing, dtype=np.float64)
        missing.eliminate_zeros()
        if not sparse:
            filled = matrix.astype(np.float64)
            filled[missing.nonzero()] = np.nan
            return filled
        missing.data[:] = np.nan
        return sp.csr_array(matrix.astype(np.float64) + missing)

    def describe(self) -> str:
        """One line that says what was read."""
        rows, columns = self.shape
        kind = f"sparse, {self.matrix.nnz} stored values" if sp.issparse(self.matrix) else "dense"
        return f"{self.source}: {rows} samples x {columns} features ({kind})"


def as_labels(values: Any) -> Labels:
    """Turn any sequence of names into an array of str."""
    return np.asarray([str(value) for value in values], dtype=np.str_)
