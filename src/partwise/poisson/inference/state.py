"""State shared by the batch algorithms, how they start, and how data of extreme size are rescaled first."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.passes.batches import expected_in_groups
from partwise.passes.side import Floors, Side

# Data of extreme size are rescaled by powers of 2, which change no digits: squares of 1e200 would overflow.

# Counts never need this, because sums above 2**63 are refused.
_USUAL = 200
_NOTHING = 1e-100


def usual_size(data: SparseData) -> tuple[SparseData, int]:
    """The data divided by a power of 2, and its exponent: 0 unless the values are extreme.

    Values that are negligible compared with the average are left out, because products of such factors underflow. Data
    on disk stay as they are.
    """
    if data.is_integer or data.by_rows or not data.nnz:
        return data, 0
    average = data.total / data.nnz
    data = data.only(data.values >= _NOTHING * average)
    _, exponent = np.frexp(average)
    if abs(exponent) <= _USUAL:
        return data, 0
    return data.with_values(np.ldexp(data.values, -exponent)), int(exponent)


def rows_of_usual_size(data: SparseData) -> tuple[SparseData, NDArray[np.int32]]:
    """The data with each row of extreme size divided by its own power of 2, and the exponents of all rows."""
    _, exponents = np.frexp(data.row_sums)
    exponents = np.where(np.abs(exponents) > _USUAL, exponents, 0)
    if not exponents.any():
        return data, exponents
    values = np.ldexp(np.asarray(data.values, dtype=np.float64), -np.repeat(exponents, np.diff(data.indptr)))
    return data.with_values(values), exponents


Start = str | tuple[Floats, Floats]


@dataclass
class PoissonState:
    """Activations (samples x parts, which may be on workers) and dictionary (features x parts)."""

    activations: Any
    dictionary: Floats


@dataclass
class PoissonAlgorithm:
    """What the batch algorithms share: their settings, and expected totals for batch factors."""

    n_components: int
    init_factors: Start
    engine: Engine = field(compare=False)

    def expected_in_groups(self, data: SparseData, state: PoissonState) -> Floats:
        """Expected totals of each feature in each batch, without batch factors."""
        return expected_in_groups(Side(data, self.engine), state.activations, state.dictionary)


def start_factors(key: Key, data: SparseData, n_components: int, init: Start) -> PoissonState:
    """The initial factors, by ``init``: ``"random"``, ``"nndsvd"`` or a pair (activations, parts) of arrays."""
    if isinstance(init, tuple):
        activations, dictionary = init[0], init[1].T
    elif init == "nndsvd":
        if data.by_rows:
            raise InvalidInputError("init='nndsvd' needs the data in memory, and these are on disk: use 'random'.")
        activations, dictionary = _nndsvd(key, data, n_components)
    else:
        # The features' frequencies with exponential noise, and each row's total spread evenly.
        dictionary = key.for_stage("init").generator().exponential(size=(data.shape[1], n_components))
        dictionary += 0.1
        dictionary *= data.column_sums[:, None] + 1e-3 * data.total / data.shape[1]
        dictionary /= dictionary.sum(axis=0)
        activations = np.repeat(data.row_sums[:, None] / n_components, n_components, axis=1)
    return scaled(activations, dictionary, Floors.of(data, n_components))


def scaled(activations: Floats, dictionary: Floats, floors: Floors) -> PoissonState:
    """Move the scale of each part into the activations, so that dictionary columns sum to 1, and floor both."""
    dictionary = np.ascontiguousarray(dictionary)
    sums = dictionary.sum(axis=0)
    sums = np.where(sums > 0, sums, 1.0)
    # Given parts are transposed, and kernels are compiled for contiguous rows.
    activations = np.multiply(activations, sums, order="C")
    dictionary = np.divide(dictionary, sums, order="C")
    np.maximum(activations, floors.activations[:, None], out=activations)
    np.maximum(dictionary, floors.dictionary[:, None], out=dictionary)
    return PoissonState(activations, dictionary)


def checked_start(init: tuple[Any, ...], shape: tuple[int, int], n_components: int) -> tuple[Floats, Floats]:
    """Copies of the user's initial arrays (activations, parts); refused if they do not fit the data."""
    if len(init) != 2:
        raise InvalidInputError(f"init must be a pair (activations, parts), got {len(init)} items.")
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
    """Nonnegative double SVD (Boutsidis & Gallopoulos 2008); zeros are replaced by a hundredth of the average entry."""
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
