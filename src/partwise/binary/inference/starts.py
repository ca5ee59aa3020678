"""Initial labels."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from partwise.binary.inference.cells import Cells, sum_of_others
from partwise.binary.inference.variational import BinaryVariationalBayes, column_weights, pair_row_weights, row_weights
from partwise.binary.kernels.cells import draw_labels, to_row_order
from partwise.binary.model import BinaryModel
from partwise.core.keys import Key
from partwise.engines.local import LocalEngine
from partwise.sampling.draws import label_type

Start = Literal["random", "vb", "vb20", "mixed"]
"""``"mixed"``: the last third of the chains have ``"vb20"``, the others ``"random"``."""

# Parts of variational fits. Ten parts and 100 passes are those of the authors' code; twenty predict better.
_VB_COMPONENTS, _VB_PASSES = {"vb": 10, "vb20": 20}, 100


def starts_of(start: Start, n_chains: int) -> tuple[Start, ...]:
    """The start of each chain."""
    both: tuple[Start, Start] = ("random", "vb20") if start == "mixed" else (start, start)
    n_fitted = (n_chains + 1) // 3
    return both[:1] * (n_chains - n_fitted) + both[1:] * n_fitted


def start_labels(key: Key, data: Cells, model: BinaryModel, start: Start) -> tuple[NDArray[Any], NDArray[Any]]:
    """Labels of all cells by columns and, for Dir-Dir, second labels by rows (otherwise empty).

    ``"random"``: every part with the same probability. ``"vb"``, ``"vb20"``: drawn from the responsibilities of a short
    variational fit with at most ten, or twenty, parts.
    """
    generator = key.for_stage("start").generator()
    n_components, kind = model.n_components, label_type(model.n_components)
    if start == "random":
        labels = generator.integers(n_components, size=data.n_cells, dtype=kind)
    else:
        labels = _variational_labels(key, data, model, _VB_COMPONENTS[start]).astype(kind)
    if model.kind != "dir-dir":
        return labels, np.empty(0, kind)
    row_labels = np.empty_like(labels)
    to_row_order(data.ordered, labels, row_labels)
    # a one has equal labels, a zero different ones
    steps = generator.integers(1, n_components, size=data.n_cells)
    other = (row_labels + steps) % n_components
    return labels, np.where(data.codes & 1, row_labels, other).astype(kind)


def _variational_labels(key: Key, data: Cells, model: BinaryModel, most: int) -> NDArray[Any]:
    alpha, beta = (part[:most] for part in model.priors[:2])
    few = replace(
        model,
        n_components=min(model.n_components, most),
        alpha=alpha,
        beta=beta,
        concentration=1.0,
        activation_concentration=1.0,
        estimated=(),
    )
    algorithm = BinaryVariationalBayes(few, LocalEngine(1))
    state = algorithm.init(key, data)
    for _ in range(_VB_PASSES):
        state, _info = algorithm.step(key, data, state)
    if few.kind == "dir-dir":
        ones, _ = pair_row_weights(few, state.row_counts)
        zeros = sum_of_others(ones)
    else:
        zeros, ones = row_weights(few, state.row_counts)
    columns, _ = column_weights(few, state.column_counts)
    labels = np.empty(data.n_cells, np.int64)
    draw_labels(data.ordered, zeros, ones, columns, key.for_stage("start labels").words, labels)
    return labels
