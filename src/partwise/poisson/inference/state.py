"""State that the batch algorithms share, and how they start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.errors import InvalidInputError
from partwise.passes.floors import Floors

Floats = NDArray[np.float64]
Start = str | tuple[Floats, Floats]


@dataclass
class PoissonState:
    """Activations (samples x components, which may be on workers) and dictionary (features x components)."""

    activations: Any
    dictionary: Floats


def start_factors(key: Key, data: SparseData, n_components: int, init: Start) -> PoissonState:
    """The first factors, by ``init``: ``"random"``, ``"nndsvd"`` or a pair (activations, components) of arrays."""
    if isinstance(init, tuple):
        activations, dictionary = init[0], init[1].T
    elif init == "nndsvd":
        if data.by_rows:
            raise InvalidInputError("init='nndsvd' needs the data in memory, and these are on disk: use 'random'.")
        activations, dictionary = _nndsvd(key, data, n_components)
    else:
        # The features' own frequencies with exponential noise, and each row's total spread evenly.
        dictionary = key.for_stage("init").generator().exponential(size=(data.shape[1], n_components))
        dictionary += 0.1
        dictionary *= data.column_sums[:, None] + 1e-3 * data.total / data.shape[1]
        dictionary /= dictionary.sum(axis=0)
        activations = np.repeat(data.row_sums[:, None] / n_components, n_components, axis=1)
    return scaled(activations, dictionary, Floors.of(data, n_components))


def scaled(activations: Floats, dictionary: Floats, floors: Floors) -> PoissonState:
    """Move the scale of each component into the activations, so that dictionary columns sum to 1, and floor both."""
    dictionary = np.ascontiguousarray(dictionary)
    sums = dictionary.sum(axis=0)
    sums = np.where(sums > 0, sums, 1.0)
    # Given components come transposed, and kernels are compiled for rows that lie together.
    activations = np.multiply(activations, sums, order="C")
    dictionary = np.divide(dictionary, sums, order="C")
    np.maximum(activations, floors.activations[:, None], out=activations)
    np.maximum(dictionary, floors.dictionary[:, None], out=dictionary)
    return PoissonState(activations, dictionary)


def checked_start(init: tuple[Any, ...], shape: tuple[int, int], n_components: int) -> tuple[Floats, Floats]:
    """Copies of the arrays (activations, components) that a user starts from, refused if they do not fit the data."""
    if len(init) != 2:
        raise InvalidInputError(f"init must be a pair (activations, components), got {len(init)} items.")
    shapes = {"activations": (shape[0], n_components), "components": (n_components, shape[1])}
    checked = []
    for value, (name, needed) in zip(init, shapes.items(), strict=True):
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise InvalidInputError(f"init: {name} must be an array of numbers, got {type(value).__name__}.")
        array = array.astype(np.float64, order="C")
        if array.shape != needed:
            raise InvalidInputError(f"init: {name} must have shape {needed}, got {array.shape}.")
        bad = ~(np.isfinite(array) & (array >= 0))
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise InvalidInputError(
                f"init: {name}[{row}, {column}] = {array[row, column]} must be a finite nonnegative number."
            )
        checked.append(array)
    return checked[0], checked[1]


def _nndsvd(key: Key, data: SparseData, n_components: int) -> tuple[Floats, Floats]:
    """Nonnegative double SVD (Boutsidis & Gallopoulos 2008), zeros filled with a hundredth of the average entry."""
    from sklearn.utils.extmath import randomized_svd

    rank = min(n_components, *data.shape)
    seed = int(key.for_stage("init").generator().integers(2**31))
    left, sizes, right = randomized_svd(data.to_scipy().astype(np.float64), rank, random_state=seed)
    average = data.total / (data.shape[0] * data.shape[1])
    activations = np.zeros((data.shape[0], n_components))
    dictionary = np.zeros((data.shape[1], n_components))
    for k in range(rank):
        u, v = left[:, k], right[k]
        halves = [(np.maximum(sign * u, 0.0), np.maximum(sign * v, 0.0)) for sign in (1.0, -1.0)]
        u, v = max(halves, key=lambda pair: float(np.linalg.norm(pair[0]) * np.linalg.norm(pair[1])))
        scale = np.sqrt(sizes[k] / max(float(np.linalg.norm(u) * np.linalg.norm(v)), 1e-300))
        activations[:, k], dictionary[:, k] = scale * u, scale * v
    fill = 0.01 * np.sqrt(average / n_components)
    return np.maximum(activations, fill), np.maximum(dictionary, fill)
