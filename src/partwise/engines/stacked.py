"""Several arrays of the workers as one: chains, or draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from partwise.engines.distributed import RemoteRows, total


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
