"""Checks on data values: every bad matrix gets one sentence that names the first offending cell and the remedy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.errors import InvalidInputError, LogNormalisedWarning
from partwise.io.table import Table

_LARGEST_TOTAL = 2**63 - 1
_ROWS_PROBED = 64


def cell(csr: Any, position: int, table: Table) -> str:
    """``X[3, 7]``, with the labels where there are any, for the stored entry at ``position``."""
    row = int(np.searchsorted(csr.indptr, position, side="right")) - 1
    return cell_name(row, int(csr.indices[position]), table)


def cell_name(row: int, column: int, table: Table) -> str:
    """``X[3, 7]``, with the labels where there are any."""
    labels = [
        f"{kind} {names[index]!r}"
        for kind, names, index in (("row", table.row_labels, row), ("column", table.column_labels, column))
        if names is not None
    ]
    place = f"{table.source}[{row}, {column}]"
    return f"{place} ({', '.join(str(label) for label in labels)})" if labels else place


def check_values(csr: Any, table: Table, *, caller: str, kind: str) -> None:
    """Refuse what cannot be data of a ``kind``: ``"real"`` (nonnegative), ``"integer"`` (counts) or ``"binary"``."""
    values = csr.data
    _refuse(
        ~np.isfinite(values),
        csr,
        table,
        lambda at: f"{table.source} contains infinity: {cell(csr, at, table)} is {values[at]}; remove or correct it.",
    )
    _refuse(
        values < 0,
        csr,
        table,
        lambda at: (
            f"Negative values in data passed to {caller}: {cell(csr, at, table)} = {values[at]:g};"
            " pass nonnegative data (raw, not centred)."
        ),
    )
    if kind == "binary":
        _refuse(
            (values != 0) & (values != 1),
            csr,
            table,
            lambda at: (
                f"{cell(csr, at, table)} = {values[at]:g} is neither 0 nor 1, which {caller} needs:"
                " threshold the data, or use a model for counts."
            ),
        )
    if kind == "integer" and values.dtype.kind == "f":
        hint = "looks log-normalised: pass the raw counts layer" if looks_normalised(csr) else "pass raw counts"
        _refuse(
            values != np.floor(values),
            csr,
            table,
            lambda at: f"{cell(csr, at, table)} = {values[at]:g} is not a whole number, which {caller} needs; {hint}.",
        )
    total = float(np.sum(values, dtype=np.float64))
    whole = kind == "integer" or values.dtype.kind in "iu"
    if not np.isfinite(total) or (whole and total > _LARGEST_TOTAL):
        raise InvalidInputError(
            f"The sum of {table.source} overflows 64 bits ({total:.3g}): scale the data down or correct its largest"
            f" entry, {cell(csr, int(np.argmax(values)), table)} = {values.max():g}."
        )


def _refuse(bad: NDArray[np.bool_], csr: Any, table: Table, sentence: Any) -> None:
    if bad.any():
        raise InvalidInputError(sentence(int(np.argmax(bad))))


def warn_if_normalised(csr: Any, table: Table, caller: str) -> None:
    """One warning when real data look like counts that were normalised and perhaps logged."""
    if csr.data.dtype.kind == "f" and looks_normalised(csr):
        warnings.warn(
            f"{table.source} looks log-normalised: {caller} models raw counts, so pass the raw counts layer.",
            LogNormalisedWarning,
            stacklevel=2,
        )


def looks_normalised(csr: Any) -> bool:
    """Whether rows are whole counts times a row factor, perhaps after log1p or log2(1 + x).

    In such a row all values, once the logarithm is undone, are whole multiples of the smallest one. Rows of general
    real data are not.
    """
    for undo in (np.expm1, lambda v: np.exp2(v) - 1.0, lambda v: v):
        rows = whole = 0
        for row in range(csr.shape[0]):
            values = np.asarray(csr.data[csr.indptr[row] : csr.indptr[row + 1]], dtype=np.float64)
            values = values[values > 0]
            if values.size < 8 or values.max() > 30 or np.all(values == np.floor(values)):
                continue
            counts = undo(values)
            ratio = counts / counts.min()
            ratio = ratio[ratio < 100]
            # A row where everything equals the smallest value says nothing.
            if np.unique(np.round(ratio, 2)).size < 3:
                continue
            rows += 1
            whole += int(np.max(np.abs(ratio - np.round(ratio))) < 2e-3 * max(1.0, ratio.max()))
            if rows == _ROWS_PROBED:
                break
        if rows >= 3 and whole > 0.5 * rows:
            return True
    return False
