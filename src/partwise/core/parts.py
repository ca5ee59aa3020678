"""Some rows of data that one process checks and writes, while others do the same with theirs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from partwise.core.chunks import joined
from partwise.core.coerce import as_table
from partwise.core.data import CountMatrix
from partwise.core.mapped import BlockFacts
from partwise.core.pieces import Piece
from partwise.io.csr_folder import ARRAYS
from partwise.io.csr_parts import Part, write_part
from partwise.io.npy import load_npy
from partwise.io.table import Labels, Table


class Rules(NamedTuple):
    """What data have to be, and what messages call the user of the data."""

    integers: bool = False
    caller: str = "on_disk"


class StoredPart(NamedTuple):
    """Rows that are written: where, what is known of them, and warnings that their check gave."""

    part: Part
    facts: BlockFacts
    warned: tuple[str, ...]


def store_piece(piece: Piece, folder: str, first_row: int, rules: Rules) -> StoredPart | None:
    """Get a piece, check it and write it to a folder; None if it has no rows.

    Parameters
    ----------
    piece
        Gives the rows.
    folder
        To make; several that make the same write the same.
    first_row
        What its first row is in all of the data, for messages.
    rules
        What is checked.
    """
    return _stored(piece(), folder, first_row, rules)


def store_chunks(
    chunks: Sequence[Any], rows: Labels | None, columns: Labels | None, folder: str, first_row: int, rules: Rules
) -> StoredPart | None:
    """Do the same with a row of chunks of a Dask array, with their labels."""
    matrix = joined(chunks)
    if rows is not None:
        rows = rows[: matrix.shape[0]]
    return _stored(Table(matrix, rows, columns), folder, first_row, rules)


def _stored(given: Any, folder: str, first_row: int, rules: Rules) -> StoredPart | None:
    if getattr(given, "shape", (1,))[0] == 0:
        return None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        block = CountMatrix.build(
            as_table(given, first_row=first_row), integers=rules.integers, caller=rules.caller, allow_all_zero=True
        )
    arrays = {name: getattr(block, name) for name in (*ARRAYS, "row_labels", "column_labels", "column_sums")}
    part = write_part(folder, arrays)
    return StoredPart(part, BlockFacts.of(block), tuple(str(warning.message) for warning in caught))


def add_column_sums(folder: str | os.PathLike[str], parts: Sequence[str]) -> None:
    """Write the sums of columns over all parts, added in their order.

    Parameters
    ----------
    folder
        Of the whole.
    parts
        Folders of the parts.
    """
    total: Any = 0.0
    for part in parts:
        total = total + load_npy(Path(part) / "column_sums.npy")
    np.save(Path(folder) / "column_sums.npy", total)
