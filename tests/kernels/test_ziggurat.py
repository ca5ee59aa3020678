from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from partwise.kernels import streams


@pytest.mark.parametrize(
    ("edges", "heights", "tail", "density"),
    [
        (streams.NORMAL_EDGES, streams.NORMAL_HEIGHTS, streams.NORMAL_TAIL, stats.norm),
        (streams.EXPONENTIAL_EDGES, streams.EXPONENTIAL_HEIGHTS, streams.EXPONENTIAL_TAIL, stats.expon),
    ],
    ids=["normal", "exponential"],
)
def test_layers_have_equal_areas_and_close_at_the_top(
    edges: np.ndarray, heights: np.ndarray, tail: float, density: object
) -> None:
    peak = density.pdf(0.0)
    areas = edges[1:-1] * np.diff(heights)[1:]
    base = tail * heights[1] + density.sf(tail) / peak
    np.testing.assert_allclose(areas, base, rtol=1e-11)  # the last one closes only if the tail's start is right
    assert edges[0] * heights[1] == pytest.approx(base, rel=1e-14)
    assert (edges[-1], heights[-1]) == (0.0, 1.0)
    np.testing.assert_allclose(heights[1:], density.pdf(edges[1:]) / peak, rtol=1e-13)
