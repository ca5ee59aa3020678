"""Write rows to a folder from one process: data in memory at once, data of any size block by block."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.io.npz import write_header
from partwise.io.table import Labels
from partwise.storage.csr_folder import ARRAYS, POINTERS, Description, mapped_array, new_folder

_COPIED_AT_ONCE = 2**20


def save_arrays(folder: Path, **arrays: NDArray[Any] | None) -> None:
    """Write arrays to an existing folder. Those that are None are left out."""
    for name, array in arrays.items():
        if array is not None:
            np.save(folder / f"{name}.npy", array, allow_pickle=False)


def save_rows(rows: SparseData, folder: Path) -> Description:
    """Write rows in memory, and their description, to an existing folder."""
    names = *ARRAYS, "row_labels", "column_labels", "column_sums"
    save_arrays(folder, **{name: getattr(rows, name) for name in names})
    description = Description.of(rows)
    description.write(folder)
    return description


def write_data(data: SparseData, folder: str | os.PathLike[str]) -> None:
    """Write data in memory to a new folder, for other processes to map."""
    with new_folder(Path(folder)) as aside:
        save_rows(data, aside)


def write_rows(blocks: Iterable[SparseData], folder: str | os.PathLike[str]) -> None:
    """Write blocks of consecutive rows with the same features to a new folder.

    Parameters
    ----------
    blocks
        At least one; all counts, or all bits.
    folder
        The folder to make.
    """
    described: list[Description] = []
    row_labels: list[Labels] = []
    column_labels, column_sums = None, np.zeros(0)
    with new_folder(Path(folder)) as aside:
        with contextlib.ExitStack() as files:
            grown: dict[str, _GrowingArray] = {}
            for block in blocks:
                described.append(Description.of(block))
                described[0].check_features(described[-1], len(described) - 1)
                if not grown:
                    for name in ARRAYS:
                        grown[name] = _GrowingArray(aside / f"{name}.npy", getattr(block, name).dtype)
                        files.callback(grown[name].close)
                    column_labels, column_sums = block.column_labels, np.zeros(block.shape[1])
                for name, array in grown.items():
                    numbers = getattr(block, name)
                    if name in POINTERS and array.size:
                        numbers = numbers[1:] + grown[POINTERS[name]].size
                    array.append(numbers)
                column_sums += block.column_sums
                if block.row_labels is not None:
                    row_labels.append(block.row_labels)
        whole = Description.of_all(described)
        names = np.concatenate(row_labels) if whole.row_labels else None
        save_arrays(aside, row_labels=names, column_labels=column_labels, column_sums=column_sums)
        whole.write(aside)


class _GrowingArray:
    """A one-dimensional .npy file that grows. NumPy pads its header for this; the header is rewritten at the end.

    Parameters
    ----------
    path
        The file.
    dtype
        Type of the numbers, until wider numbers arrive.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.path = path
        self._begin(dtype)

    def append(self, array: NDArray[Any]) -> None:
        dtype = np.promote_types(self.dtype, array.dtype)
        if dtype != self.dtype:
            self._widen(dtype)
        self._file.write(np.ascontiguousarray(array, dtype=dtype).data)
        self.size += array.size

    def close(self) -> None:
        try:
            self._file.seek(0)
            write_header(self._file, self.dtype, self.size)
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            self._file.close()

    def _begin(self, dtype: np.dtype[Any]) -> None:
        self.dtype, self.size = dtype, 0
        self._file = self.path.open("w+b")
        write_header(self._file, dtype, 0)

    def _widen(self, dtype: np.dtype[Any]) -> None:
        self.close()
        narrow = self.path.rename(self.path.with_suffix(".narrow"))
        before = mapped_array(narrow)
        self._begin(dtype)
        for first in range(0, before.size, _COPIED_AT_ONCE):
            self.append(before[first : first + _COPIED_AT_ONCE])
        del before
        narrow.unlink()
