"""Checked data in a folder: mapped into memory, read block by block, never as a whole."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from partwise.core.data import CountMatrix, SparseData
from partwise.errors import InvalidInputError
from partwise.storage.csr_folder import check_positions, open_folder


@dataclass(frozen=True, eq=False)
class MappedCounts(CountMatrix):
    """Counts (or nonnegative reals) in a folder; every estimator that goes over rows accepts them.

    Algorithms sum over rows into features block by block, as no single machine holds all rows of a column.
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
        description, stored = open_folder(Path(folder))
        if not isinstance(stored, CountMatrix):
            raise InvalidInputError(f"{folder} holds {description.data}, not counts: open it with what wrote it.")
        data = cls(
            **{field.name: getattr(stored, field.name) for field in fields(stored)},
            folder=Path(folder),
            checksum=description.checksum,
            source=source or str(folder),
        )
        data.__dict__.update(total=stored.total, column_sums=stored.column_sums)
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
        check_positions(data.folder, data.shape[1])
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
        return self._plain.rows(start, stop)

    @cached_property
    def _plain(self) -> CountMatrix:
        """The same arrays, still mapped, as data like any other."""
        return CountMatrix(**{field.name: getattr(self, field.name) for field in fields(CountMatrix)})

    def fingerprint(self) -> str:
        """The checksum that was taken when the folder was written."""
        return self.checksum


def open_data(folder: str | os.PathLike[str]) -> SparseData:
    """The data of a folder, mapped into memory, for a process that works on some of their rows."""
    return open_folder(Path(folder))[1]
