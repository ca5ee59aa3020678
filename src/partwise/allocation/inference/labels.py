"""Labels of tokens and their counts: what all samplers start from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.allocation.inference.start import first_feature_counts
from partwise.allocation.kernels.collapsed import sweep_tokens
from partwise.allocation.model import AllocationModel
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import first_tokens
from partwise.errors import InvalidInputError
from partwise.kernels.lanes import LANES
from partwise.poisson.inference.state import Start

_MOST_TOKENS = 2**31
_WITHOUT_LABELS = "use 'vb' or 'bld', whose memory does not grow with the counts"
# Entries of 4 bytes that a sweep works on at a time, to stay in a cache of 1 MB.
_TILE = 200_000


def label_type(n_components: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that tells apart all components, and no component."""
    return np.uint8 if n_components < 2**8 else np.uint16 if n_components < 2**16 else np.uint32


def padded_width(n_components: int) -> int:
    """Components with those that are appended to fill the lanes of a sweep."""
    return -(-n_components // LANES) * LANES


def tile_of(width: int) -> int:
    """Features that a sweep works on at a time, so many numbers of each being read and written."""
    return max(1, _TILE // width)


def keys_of_rows(data: SparseData) -> int:
    """How many streams the rows of a tile have."""
    return data.shape[0] + 1


def check_tokens(data: SparseData, caller: str, remedy: str = _WITHOUT_LABELS) -> None:
    """Refuse data of more tokens than labels are kept for."""
    if data.total > _MOST_TOKENS:
        raise InvalidInputError(f"{caller} keeps a label for each token, and X has {data.total:.3g} of them: {remedy}.")


def guide_counts(
    key: Key, data: SparseData, model: AllocationModel, start: Start, engine: Engine
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Counts of features in components by KL-NMF, in whole numbers, and their sums; those of the data may be added."""
    counts = first_feature_counts(key, data, model, start, engine)
    counts *= min(1.0, 0.9 * (_MOST_TOKENS - data.total) / max(data.total, 1.0))
    whole = np.rint(counts).astype(np.int32)
    return whole, whole.sum(axis=0, dtype=np.int64)


def sweep(
    key: Key,
    data: SparseData,
    model: AllocationModel,
    rows: tuple[int, int],
    labels: NDArray[Any],
    sample_counts: NDArray[np.int32],
    feature_counts: NDArray[np.int32],
    component_counts: NDArray[np.int64],
    *,
    first_row: int = 0,
    row_keys: int | None = None,
) -> None:
    """One collapsed sweep over some rows, in place; tokens without a label get one.

    Where the data are only some rows of others, ``first_row`` is the first of them, and ``row_keys`` that of all.
    """
    sweep_tokens(
        data.indptr,
        data.indices,
        data.values,
        first_tokens(data),
        model.dictionary_concentration,
        model.activation_concentration,
        tile_of(feature_counts.shape[1]),
        *key.words,
        first_row,
        keys_of_rows(data) if row_keys is None else row_keys,
        *rows,
        labels,
        sample_counts,
        feature_counts,
        component_counts,
    )
