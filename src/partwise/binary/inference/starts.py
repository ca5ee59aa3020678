"""Labels to start from."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from partwise.binary.inference.cells import Cells
from partwise.binary.kernels.cells import to_row_order
from partwise.binary.model import BinaryModel
from partwise.core.keys import Key

Start = Literal["random"]


def label_type(n_components: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that holds a label: labels of all cells are what a sweep reads most."""
    if n_components <= 2**8:
        return np.uint8
    return np.uint16 if n_components <= 2**16 else np.uint32


def start_labels(key: Key, data: Cells, model: BinaryModel, start: Start) -> tuple[NDArray[Any], NDArray[Any]]:
    """Labels of all cells by columns and, for Dir-Dir, second labels by rows (otherwise empty)."""
    generator = key.for_stage("start").generator()
    n_components, kind = model.n_components, label_type(model.n_components)
    labels = generator.integers(n_components, size=data.n_cells, dtype=kind)
    if model.kind != "dir-dir":
        return labels, np.empty(0, kind)
    row_labels = np.empty_like(labels)
    to_row_order(data.row_starts, data.codes, data.column_starts, labels, row_labels)
    # a one has equal labels, a zero different ones
    steps = generator.integers(1, n_components, size=data.n_cells)
    other = (row_labels + steps) % n_components
    return labels, np.where(data.codes & 1, row_labels, other).astype(kind)
