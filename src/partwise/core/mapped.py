"""Checked data on disk: mapped into memory, read block by block, never as a whole."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import BinaryMatrix, CountMatrix, SparseData
from partwise.core.fingerprint import fingerprint
from partwise.errors import InvalidInputError
from partwise.io.csr_folder import ARRAYS, CsrWriter, check_positions, open_csr, read_sums
from partwise.io.table import Labels

_KINDS: dict[str, type[SparseData]] = {"counts": CountMatrix, "bits": BinaryMatrix}
# Rows of data in memory that are written to a folder at once.
_ROWS_AT_ONCE = 2**16


@dataclass(frozen=True, eq=False)
class MappedCounts(CountMatrix):
    """Counts (or nonnegative reals) in a folder; every estimator that goes over rows accepts them.

    Algorithms sum over rows into features block by block, as the columns of such data are nowhere together.
    """

    folder: Path = Path()
    checksum: str = ""
    source: str = "X"

    by_rows = True

    @classmethod
    def open(cls, folder: str | os.PathLike[str], source: str | None = None) -> MappedCounts:
        """Open a folder that `partwise.on_disk` wrote.

        Parameters
        ----------
        folder
            The folder.
        source
            What messages call the data; None = by the folder.
        """
        description, arrays = open_csr(folder)
        kind = description.get("data")
        if kind != "counts":
            raise InvalidInputError(f"{folder} holds {kind}, not counts: open it with what wrote it.")
        total, checksum, column_sums = read_sums(folder, description)
        fields: dict[str, Any] = {**arrays, "folder": Path(folder), "checksum": checksum}
        data = cls(shape=tuple(description["shape"]), source=source or str(folder), **fields)
        data.__dict__["total"], data.__dict__["column_sums"] = total, column_sums
        return data

    @classmethod
    def open_checked(cls, folder: str | os.PathLike[str]) -> MappedCounts:
        """Open a folder that may have been changed since it was written: all positions are read once.

        Parameters
        ----------
        folder
            The folder.
        """
        data = cls.open(folder)
        check_positions(folder, data.shape[1])
        return data

    @property
    def transposed(self) -> Self:
        """There is none: it would have to be written anew, by columns."""
        raise InvalidInputError(
            f"{self.source} holds rows on disk, and this algorithm needs columns: choose another inference, or load the"
            " data into memory."
        )

    def rows(self, start: int, stop: int) -> Any:
        """Samples ``start`` to ``stop`` as data of their own, in memory as far as anybody looks at them."""
        return self.plain.rows(start, stop)

    @cached_property
    def plain(self) -> CountMatrix:
        """The same arrays, still mapped, as data like any other."""
        names = ("indptr", "indices", "values", "missing_indptr", "missing_indices", "row_labels", "column_labels")
        return CountMatrix(self.shape, **{name: getattr(self, name) for name in names})

    def fingerprint(self) -> str:
        """The checksum that was taken when the folder was written."""
        return self.checksum


class BlockFacts(NamedTuple):
    """What is known of a block of rows without looking at it again.

    Attributes
    ----------
    kind
        ``"counts"`` or ``"bits"``.
    n_columns
        Number of features.
    names
        A checksum of the names of the features; empty if they have none.
    total
        Sum of its values.
    checksum
        Of its arrays.
    """

    kind: str
    n_columns: int
    names: str
    total: float
    checksum: str

    @classmethod
    def of(cls, block: SparseData) -> BlockFacts:
        """The facts of a block."""
        kind = "bits" if isinstance(block, BinaryMatrix) else "counts"
        names = "" if block.column_labels is None else fingerprint(np.asarray(block.column_labels, dtype=np.str_))
        checksum = fingerprint([np.asarray(getattr(block, name)) for name in ARRAYS])
        return cls(kind, block.shape[1], names, block.total, checksum)


def check_same_features(first: BlockFacts, other: BlockFacts, number: int) -> None:
    """Refuse a block that has other features than the first one.

    Parameters
    ----------
    first, other
        What is known of both.
    number
        Of the other, for the message.
    """
    if other.n_columns != first.n_columns:
        raise InvalidInputError(
            f"part {number} has {other.n_columns} features, and those before have {first.n_columns}:"
            " give all parts the same."
        )
    if other.names != first.names:
        raise InvalidInputError(
            f"part {number} names its features otherwise than the first: give all parts the same, in the same order."
        )


def of_all(facts: Sequence[BlockFacts]) -> dict[str, Any]:
    """What the folder of some blocks says of all of them: the same for whoever wrote the blocks."""
    checksum = fingerprint([block.checksum for block in facts])
    return {"total": math.fsum(block.total for block in facts), "checksum": checksum}


def write_rows(blocks: Iterable[SparseData], folder: str | os.PathLike[str], row_labels: Labels | None = None) -> None:
    """Write data, given as blocks of consecutive rows with the same features, to a folder.

    Parameters
    ----------
    blocks
        At least one; all counts, or all bits.
    folder
        The folder to make.
    row_labels
        Names of all rows, where the blocks do not bring them.
    """
    writer: CsrWriter | None = None
    facts: list[BlockFacts] = []
    labels: list[Labels | None] = []
    columns, column_sums = None, np.zeros(0)
    try:
        for block in blocks:
            if writer is None:
                writer = CsrWriter(folder, block.shape[1])
                columns, column_sums = block.column_labels, np.zeros(block.shape[1])
            facts.append(BlockFacts.of(block))
            check_same_features(facts[0], facts[-1], len(facts) - 1)
            writer.append(*(getattr(block, name) for name in ARRAYS))
            column_sums += block.column_sums
            labels.append(block.row_labels)
        if writer is None:
            raise InvalidInputError("there are no rows to write: check where they come from.")
        if row_labels is None and all(part is not None for part in labels):
            row_labels = np.concatenate([part for part in labels if part is not None])
        arrays: dict[str, NDArray[Any] | None] = {
            "row_labels": None if row_labels is None else np.asarray(row_labels, dtype=np.str_),
            "column_labels": columns,
            "column_sums": column_sums,
        }
        writer.close(facts[0].kind, arrays, of_all(facts))
    except BaseException:
        if writer is not None:
            writer.abandon()
        raise


def write_data(data: SparseData, folder: str | os.PathLike[str]) -> None:
    """Write data that are in memory to a folder, for other processes to map."""
    n_rows = data.shape[0]
    cuts = range(0, max(n_rows, 1), _ROWS_AT_ONCE)
    write_rows((data.rows(start, min(start + _ROWS_AT_ONCE, n_rows)) for start in cuts), folder)


def open_data(folder: str | os.PathLike[str]) -> SparseData:
    """The data of a folder, mapped into memory, for a process that works on some of their rows."""
    description, arrays = open_csr(folder)
    return _KINDS[description["data"]](shape=tuple(description["shape"]), **arrays)  # type: ignore[arg-type]  # only labels may be None
