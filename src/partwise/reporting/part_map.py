"""Where parts lie: a map on which parts that share features are close, and the nearest of each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.metrics import part_similarity
from partwise.reporting.encoding import rounded
from partwise.reporting.model_view import ModelView

Floats = NDArray[np.float64]

_NEAREST = 4


def neighbours(view: ModelView) -> dict[str, Any]:
    """Places of the shown parts on the map, and the parts that are most like each.

    Parameters
    ----------
    view
        The model; parts go by their position in its order.
    """
    alike = part_similarity(view.model)[np.ix_(view.order, view.order)]
    others = alike - 2.0 * np.eye(len(alike))
    nearest = np.argsort(-others, axis=1, kind="stable")[:, : min(_NEAREST, len(alike) - 1)]
    return {
        "map": [rounded(place, 4) for place in places(np.sqrt(1.0 - alike))],
        "nearest": [[[int(k), rounded([alike[row, k]], 3)[0]] for k in ks] for row, ks in enumerate(nearest)],
    }


def places(distances: Floats) -> Floats:
    """Classical multidimensional scaling in two dimensions, within -1 and 1; the signs of axes are fixed.

    Parameters
    ----------
    distances
        Parts x parts: the root of the Jensen-Shannon divergence, which is a distance.

    Examples
    --------
    >>> places(np.array([[0.0, 1.0], [1.0, 0.0]])).tolist()
    [[1.0, 0.0], [-1.0, 0.0]]
    """
    squares = np.square(distances)
    centred = -0.5 * (squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean())
    values, vectors = np.linalg.eigh(centred)
    found = np.zeros((len(distances), 2))
    for axis in range(min(2, len(distances))):
        vector = vectors[:, -1 - axis]
        turned = vector * (1.0 if vector[np.argmax(np.round(np.abs(vector), 9))] > 0 else -1.0)
        found[:, axis] = turned * np.sqrt(max(values[-1 - axis], 0.0))
    largest = float(np.abs(found).max(initial=0.0))
    return found / largest if largest > 1e-9 else np.zeros_like(found)
