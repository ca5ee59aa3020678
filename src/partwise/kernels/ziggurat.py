"""Tables of the ziggurat method (Marsaglia and Tsang, 2000) for the standard normal and exponential densities.

Each density is covered by 256 layers of equal area. Layer 0 is the base strip with the tail beyond the last edge,
layer i > 0 the rectangle [0, edges[i]) between heights[i] and heights[i + 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

N_LAYERS = 256
NORMAL_TAIL = 3.6541528853610088
EXPONENTIAL_TAIL = 7.69711747013104972


def _layers(
    tail: float, area: float, density: Callable[[float], float], inverse: Callable[[float], float]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    edges = np.zeros(N_LAYERS + 1)
    edges[0] = area / density(tail)  # as wide as a rectangle with the area of the base strip and its tail
    edges[1] = tail
    for i in range(2, N_LAYERS):
        edges[i] = inverse(area / edges[i - 1] + density(edges[i - 1]))
    heights = np.array([density(edge) for edge in edges])
    heights[0] = 0.0
    return edges, heights


def _normal_density(x: float) -> float:
    return math.exp(-0.5 * x * x)


def _normal_inverse(height: float) -> float:
    return math.sqrt(-2.0 * math.log(height))


def _exponential_density(x: float) -> float:
    return math.exp(-x)


def _exponential_inverse(height: float) -> float:
    return -math.log(height)


NORMAL_EDGES, NORMAL_HEIGHTS = _layers(
    NORMAL_TAIL,
    NORMAL_TAIL * _normal_density(NORMAL_TAIL) + math.sqrt(math.pi / 2.0) * math.erfc(NORMAL_TAIL / math.sqrt(2.0)),
    _normal_density,
    _normal_inverse,
)
EXPONENTIAL_EDGES, EXPONENTIAL_HEIGHTS = _layers(
    EXPONENTIAL_TAIL, (EXPONENTIAL_TAIL + 1.0) * math.exp(-EXPONENTIAL_TAIL), _exponential_density, _exponential_inverse
)

# Step of a 53-bit integer in each layer.
NORMAL_WIDTHS = NORMAL_EDGES * 2.0**-53
EXPONENTIAL_WIDTHS = EXPONENTIAL_EDGES * 2.0**-53
