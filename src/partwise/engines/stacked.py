"""Several arrays of the workers as one: chains, or draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from partwise.engines import tasks
from partwise.engines.distributed import RemoteRows, total


def stacked(arrays: Sequence[Any]) -> Any:
    """Arrays of the same shape as one, which is where they are."""
    return StackedRows(arrays) if isinstance(arrays[0], RemoteRows) else np.array(arrays)


def column_values(stack: Any) -> list[tuple[NDArray[Any], NDArray[np.int64]]]:
    """The different values in each column of stacked arrays, and how often each is there."""
    if isinstance(stack, StackedRows):
        return stack.column_values()
    return [np.unique(stack[:, :, k], return_counts=True) for k in range(stack.shape[2])]


class StackedRows(NDArrayOperatorsMixin):
    """Several arrays of the workers as one with an axis in front: chains, or draws.

    Parameters
    ----------
    parts
        The arrays.
    """

    def __init__(self, parts: Sequence[RemoteRows]) -> None:
        self.parts = list(parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """Parts, rows, and the shape of one."""
        return (len(self.parts), *self.parts[0].shape)

    def sum(self, axis: None = None, out: None = None) -> Any:
        """The sum of everything, in the order of NumPy."""
        return total(self.parts)

    def column_values(self) -> list[tuple[NDArray[Any], NDArray[np.int64]]]:
        """The different values in each column, and how often each is there, counted on the workers."""
        first = self.parts[0]
        work = [([part.between(*bound) for part in self.parts],) for bound in first.bounds]
        found = first.engine.results(first.engine.submit_each(tasks.column_values, work))
        merged = []
        for k in range(self.shape[2]):
            values, places = np.unique(np.concatenate([tables[k][0] for tables in found]), return_inverse=True)
            times = np.zeros(values.size, dtype=np.int64)
            np.add.at(times, places, np.concatenate([tables[k][1] for tables in found]))
            merged.append((values, times))
        return merged

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array([np.asarray(part) for part in self.parts], dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        per_part = [
            [value.parts[at] if isinstance(value, StackedRows) else value for value in inputs]
            for at in range(len(self.parts))
        ]
        return StackedRows([getattr(ufunc, method)(*values, **options) for values in per_part])

    def __getitem__(self, index: Any) -> Any:
        return self.parts[index] if isinstance(index, int) else np.asarray(self)[index]

    def __setitem__(self, index: int, part: RemoteRows) -> None:
        self.parts[index] = part

    def __iter__(self) -> Iterator[RemoteRows]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __deepcopy__(self, memo: Any) -> StackedRows:
        return StackedRows(self.parts)
