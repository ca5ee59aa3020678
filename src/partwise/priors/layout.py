"""Where the data are: means of components that a fit begins with."""

import numpy as np

from partwise.priors.base import Floats
from partwise.priors.observations import Observations

# Expected count per observation of a component that stands for 0.
_NEAR_ZERO = 1e-10


def rate_range(data: Observations) -> tuple[float, float]:
    """Means of the lowest and the highest component worth having, but for those as good as 0.

    From a twentieth of the smallest positive rate x / s to twice the largest. But a component whose expected count over
    all observations is a hundredth can hardly be told from 0.
    """
    smallest, largest, _ = data.rate_extremes
    if largest <= 0:
        return 1.0, 0.0
    lowest = max(0.05 * smallest, 0.01 / data.total_exposure)
    return lowest, max(2.0 * largest, lowest)


def ratio_grid(lowest: float, highest: float, ratio: float) -> Floats:
    """Means from lowest to highest (or just above), each ``ratio`` times the one before; none if highest is lower."""
    if highest < lowest:
        return np.zeros(0)
    steps = int(np.ceil(np.log(highest / lowest) / np.log(ratio) - 1e-9))
    return np.asarray(lowest * ratio ** np.arange(steps + 1, dtype=np.float64))


def near_zero(data: Observations) -> Floats:
    """The mean of a component that is as good as 0, if some count is 0 (or nothing is known)."""
    needed = data.rate_extremes[2] or data.total_count <= 0
    return np.full(int(needed), _NEAR_ZERO * data.number / data.total_exposure if data.total_exposure > 0 else 1.0)


def rate_cells(data: Observations, shape: float, spacing: float, most: int) -> tuple[Floats, Floats]:
    """Rates that lie so many standard deviations of an estimated log rate apart where the data are, and the distances.

    At most so many are kept, evenly spread over their order.
    """
    seen = data.rates > 0
    deviation = np.sqrt(np.minimum(1.0, 1.0 / data.counts[seen] + 1.0 / shape))
    level = np.floor(np.log2(spacing * deviation))
    cells = np.unique(level + 1j * np.floor(np.log(data.rates[seen]) / 2.0**level))
    widths = 2.0**cells.real
    rates = np.exp((cells.imag + 0.5) * widths)
    kept = np.argsort(rates, kind="stable")
    if kept.size > most:
        kept = kept[np.linspace(0, kept.size - 1, most).astype(np.intp)]
    return rates[kept], widths[kept]
