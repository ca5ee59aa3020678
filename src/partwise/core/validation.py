"""Check data and priors. An error is one sentence that names the first offending cell and the remedy."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.errors import InvalidInputError, LogNormalisedWarning
from partwise.io.source import available_memory, format_bytes
from partwise.io.table import Table

# Python's own record of warnings belongs to the whole process, so threads that check data at the same time would
# lose each other's warnings.
_HEARD: ContextVar[list[str] | None] = ContextVar("heard", default=None)
_LARGEST_TOTAL = 2**63 - 1
# Fits compute in float64, which cannot represent all whole numbers beyond this.
_LARGEST_EXACT = 2**53
_SMALLEST = float(np.finfo(np.float64).tiny)
_LARGEST_AVERAGE = 1e60
_ROWS_PROBED = 64
_FEWEST_VALUES = 8
_LARGEST_LOGARITHM = 30.0
_ROUNDING = 2e-3
_PIECE = 2**20
_INFINITE = "{source} contains infinity: {cell} is {value}; remove or correct it."
_NEGATIVE = "Negative values in data passed to {caller}: {cell} = {value:g}; pass nonnegative data (raw, not centred)."
_ROUNDED = "{cell} = {value} is above 2^53, so float64 would round it: scale the data down or correct it."
_SUBNORMAL = "{cell} = {value:g} is too small to compute with: write 0, or give X in larger units."
_NO_BIT = "{cell} = {value:g} is neither 0 nor 1, which {caller} needs: threshold the data, or use a model for counts."
_FRACTION = "{cell} = {value:g} is not a whole number, which {caller} needs; {hint}."


def cell(csr: Any, position: int, table: Table) -> str:
    """``X[3, 7]``, with labels if there are any, for the stored entry at ``position``."""
    return cell_name(int(np.searchsorted(csr.indptr, position, side="right")) - 1, int(csr.indices[position]), table)


def cell_name(row: int, column: int, table: Table) -> str:
    """``X[3, 7]``, with labels if there are any."""
    named = ("row", table.row_labels, row), ("column", table.column_labels, column)
    known = [(kind, names[at]) for kind, names, at in named if names is not None and at < len(names)]
    labels = [f"{kind} {str(name)!r}" for kind, name in known]
    place = f"{table.source}[{table.first_row + row}, {column}]"
    return f"{place} ({', '.join(labels)})" if labels else place


def check_values(csr: Any, table: Table, *, caller: str, kind: str) -> None:
    """Refuse what cannot be data of a ``kind``: ``"real"`` (nonnegative), ``"integer"`` (counts) or ``"binary"``."""
    values = csr.data

    def refuse(bad: NDArray[np.bool_], sentence: str, **words: str) -> None:
        if bad.any():
            at = int(np.argmax(bad))
            place = cell(csr, at, table)
            raise InvalidInputError(sentence.format(cell=place, value=values[at], caller=caller, **words))

    refuse(~np.isfinite(values), _INFINITE, source=table.source)
    refuse(values < 0, _NEGATIVE)
    if values.dtype.kind == "f":
        refuse((values > 0) & (values < _SMALLEST), _SUBNORMAL)
    elif values.dtype.itemsize == 8:
        refuse((values > _LARGEST_EXACT) & (values.astype(np.float64).astype(values.dtype) != values), _ROUNDED)
    if kind == "binary":
        refuse((values != 0) & (values != 1), _NO_BIT)
    if kind == "integer" and values.dtype.kind == "f":
        looks = looks_normalised(csr)
        hint = f"looks {looks}: pass the raw counts layer" if looks else "pass raw counts"
        refuse(values != np.floor(values), _FRACTION, hint=hint)
    with np.errstate(over="ignore"):
        total = float(np.sum(values, dtype=np.float64))
    whole = kind == "integer" or values.dtype.kind in "iu"
    if not np.isfinite(total) or (whole and total > _LARGEST_TOTAL):
        raise InvalidInputError(
            f"The sum of {table.source} overflows 64 bits ({total:.3g}): scale the data down or correct its largest"
            f" entry, {cell(csr, int(np.argmax(values)), table)} = {values.max():g}."
        )


def refuse_missing(indptr: Any, indices: Any, table: Table, caller: str, remedy: str) -> None:
    """Refuse data with missing cells, given their pattern and what to do about them."""
    row = int(np.searchsorted(indptr, 0, side="right")) - 1
    raise InvalidInputError(
        f"{cell_name(row, int(indices[0]), table)} is NaN or missing, which {caller} does not support: {remedy}."
    )


def refuse_fraction(data: Any, table: Table, caller: str) -> None:
    """Refuse data on disk that are not counts, piece by piece."""
    for start in range(0, data.values.size, _PIECE):
        piece = data.values[start : start + _PIECE]
        broken = piece != np.floor(piece)
        if broken.any():
            at = start + int(np.argmax(broken))
            words = {"cell": cell(data, at, table), "value": data.values[at], "caller": caller}
            raise InvalidInputError(_FRACTION.format(**words, hint="pass raw counts"))


def refuse_all_zero(table: Table, has_missing: bool, caller: str) -> None:
    """Refuse data without a nonzero."""
    where = "All observed cells of" if has_missing else "All cells of"
    raise InvalidInputError(
        f"{where} {table.source} are zero, so {caller} has nothing to factorise: check how the data were read."
    )


def refuse_far_from_counts(total: float, n_nonzeros: int) -> None:
    """Refuse nonnegative real numbers so large or so small that posteriors of rates would overflow."""
    average = total / max(n_nonzeros, 1)
    if average > _LARGEST_AVERAGE or 0 < average < 1.0 / _LARGEST_AVERAGE:
        raise InvalidInputError(
            f"the nonzeros of X are {average:.3g} on average, far from any count: give X in units of counts."
        )


def refuse_long_rows(lengths: NDArray[np.float64], bytes_a_token: int, caller: str, first_row: int = 0) -> None:
    """Refuse rows with so many tokens that the labels of the tokens would not fit into memory."""
    n = int(np.argmax(lengths))
    needed = int(lengths[n]) * bytes_a_token
    if needed > available_memory():
        raise InvalidInputError(
            f"Row {first_row + n} of X has {lengths[n]:.3g} tokens, and {caller} would need {format_bytes(needed)} for"
            " the labels that it keeps of them: thin the counts of such rows."
        )


def positive_each(value: Any, name: str, size: int, owners: str = "parts") -> NDArray[np.float64]:
    """Expand a prior's parameter to one positive number per owner, or raise one sentence about the first bad one."""
    wanted = f"{name} must be a number or one for each of {size} {owners}"
    try:
        values = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{wanted}, got {value!r}.") from None
    if values.shape not in ((), (size,)):
        raise InvalidInputError(f"{wanted}, got shape {values.shape}.")
    values = np.broadcast_to(values, (size,)).copy()
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        at = int(np.argmax(bad))
        raise InvalidInputError(f"{name}[{at}] = {values[at]} must be a positive finite number.")
    return values


def warn_if_normalised(csr: Any, table: Table, caller: str) -> None:
    """Warn once if real-valued data look like counts that were normalised and perhaps logged."""
    looks = looks_normalised(csr)
    if looks is not None:
        told = f"{table.source} looks {looks}: {caller} models raw counts, so pass the raw counts layer."
        heard = _HEARD.get()
        if heard is None:
            warnings.warn(told, LogNormalisedWarning, stacklevel=2)
        else:
            heard.append(told)


@contextmanager
def heard_warnings() -> Iterator[list[str]]:
    """Collect the warnings about data in this thread, instead of issuing them."""
    heard: list[str] = []
    token = _HEARD.set(heard)
    try:
        yield heard
    finally:
        _HEARD.reset(token)


def looks_normalised(csr: Any) -> str | None:
    """``"log-normalised"`` or ``"normalised"`` if each row is whole counts times a factor, perhaps logged.

    ``"weighted by tf-idf"`` if all rows have length 1, which is what tf-idf gives them by default.

    In such a row, once the logarithm is undone, all values are whole multiples of the smallest one. A row is a witness
    if continuous data would pass this test with a chance below 1/1000. There must be at least three witnesses, and
    most of them must pass. A factor shared by all rows (an image in steps of 1/255) is a unit, not a normalisation.
    """
    if csr.data.dtype.kind != "f":
        return None
    enough = np.flatnonzero(np.diff(csr.indptr) >= _FEWEST_VALUES)
    chosen = enough[np.linspace(0, enough.size - 1, min(enough.size, _ROWS_PROBED)).astype(np.intp)]
    probed = [np.sort(csr.data[csr.indptr[row] : csr.indptr[row + 1]].astype(np.float64)) for row in chosen]
    rows = [values for values in probed if not np.array_equal(values, np.floor(values))]
    found, units = _share_of_whole_multiples(rows, lambda values: values)
    if found:
        return "normalised" if np.unique(units).size > len(units) / 2 else None
    if len(rows) >= 3 and all(abs(float(np.sum(values**2)) - 1.0) < _ROUNDING for values in rows):
        return "weighted by tf-idf"
    logged = [values for values in rows if values[-1] <= _LARGEST_LOGARITHM]
    undoings = (np.expm1, lambda values: np.exp2(values) - 1.0)
    return "log-normalised" if any(_share_of_whole_multiples(logged, undo)[0] for undo in undoings) else None


def _share_of_whole_multiples(rows: list[NDArray[np.float64]], undo: Any) -> tuple[bool, list[float]]:
    """Whether most witness rows are whole multiples of their smallest value, and these smallest values."""
    witnesses = 0
    units: list[float] = []
    for values in rows:
        counts = undo(values)
        # Allow for rounding to four digits or to float32; large multiples are not informative then.
        ratios = np.unique(np.round(counts[counts < 50 * counts[0]] / counts[0], 3))[1:]
        if np.prod(np.minimum(1.0, 2 * _ROUNDING * ratios)) > 1e-3:
            continue
        witnesses += 1
        if np.all(np.abs(ratios - np.round(ratios)) <= _ROUNDING * ratios):
            units.append(float(np.round(counts[0], 12)))
    return witnesses >= 3 and len(units) > 0.5 * witnesses, units
