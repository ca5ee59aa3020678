"""Mixtures of thousands of points for counts of very different precision.

A count x tells rates apart that differ by 1 / sqrt(x) or more in their logarithms. So counts of similar size see points
through nodes half as far apart, from which likelihoods are interpolated. Large counts see the few points near them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partwise.priors.base import Floats
from partwise.priors.kernels.crowd import Bands, near_likelihoods, near_slopes
from partwise.priors.observations import Observations

# Steps, each so much longer than one of EM: below 2 they still converge.
_STEPS, _LONGER = 30, 1.8
# Points so close, in standard deviations of a log rate, become one. Each time after so many steps, gaps get points
# where these help, of so much of the weight of the lighter neighbour.
_CLOSE, _FILLED, _NEW = 0.02, 5, 0.3
# Nats below the best rate from which on a likelihood is left out.
_REACH = 25.0
# Distance of nodes, in standard deviations of the log rate, and how many of them make an interpolation.
_STEP, _NEIGHBOURS = 0.5, 8
_OFFSETS = np.arange(_NEIGHBOURS) - (_NEIGHBOURS // 2 - 1)
_INTERPOLATION = np.linalg.inv(np.vander(_OFFSETS.astype(np.float64), increasing=True))


@dataclass(frozen=True, eq=False)
class _Level:
    """Observations of similar counts: what `near_slopes` takes, and log rates between which likelihoods matter.

    ``nodes`` are log rates at equal distances, or None if points would be fewer.
    """

    observed: tuple[Floats, Floats, Floats]
    lowest: Floats
    highest: Floats
    nodes: Floats | None

    @classmethod
    def of(cls, data: Observations, shares: Floats, level: float, logs: Floats) -> _Level:
        """Those of counts below 4 ** (level + 1)."""
        counts, inverse = data.relative
        inverse, share = np.maximum(np.broadcast_to(inverse, counts.shape), 1e-300), _REACH / counts
        # Beyond these, x (r - 1 - log r) is larger: see `near`.
        lowest = -np.log(inverse) - share - np.sqrt(2.0 * share)
        highest = np.log1p(share + np.sqrt(2.0 * share)) - np.log(inverse)
        step = _STEP * 0.5 ** (level + 1.0)
        first = max(lowest.min(), logs[0]) + step * _OFFSETS[0]
        number = (min(highest.max(), logs[-1]) - first) / step + _NEIGHBOURS
        nodes = first + step * np.arange(int(number)) if number < 2 * logs.size else None
        return cls((counts, inverse, shares), lowest, highest, nodes)

    def near(self, logs: Floats) -> tuple[Bands, Floats]:
        """The likelihoods of sorted log rates that are near each observation."""
        lows = np.searchsorted(logs, self.lowest)
        lengths = np.maximum(np.searchsorted(logs, self.highest) - lows, 0)
        bands = lows, np.append(0, np.cumsum(lengths))
        likelihoods = np.empty(bands[1][-1])
        near_likelihoods(*self.observed[:2], np.exp(logs), bands, likelihoods)
        return bands, likelihoods

    def slopes(self, logs: Floats, weights: Floats, known: tuple[Bands, Floats] | None) -> Floats:
        """Sums of `near_slopes` at points, given what is near the nodes."""
        if self.nodes is None or known is None:
            sums = np.empty((4, logs.size))
            near_slopes(self.observed, np.exp(logs), weights, *self.near(logs), sums)
            return sums
        place = (logs - self.nodes[0]) / (self.nodes[1] - self.nodes[0])
        whole = np.floor(place)
        inside = (whole >= -_OFFSETS[0]) & (whole < self.nodes.size - _OFFSETS[-1])
        at = np.where(inside, whole, -_OFFSETS[0]).astype(np.intp)[:, None] + _OFFSETS
        factors = np.vander(np.where(inside, place - whole, 0.0), _NEIGHBOURS, increasing=True) @ _INTERPOLATION
        factors *= inside[:, None]
        masses = (factors * weights[:, None]).ravel()
        merged = np.asarray(np.bincount(at.ravel(), weights=masses, minlength=self.nodes.size), dtype=np.float64)
        sums = np.empty((4, self.nodes.size))
        near_slopes(self.observed, np.exp(self.nodes), merged, *known, sums)
        return np.stack([np.einsum("ij,ij->i", factors, some[at]) for some in sums])


def crowded(data: Observations, logs: Floats) -> tuple[Floats, Floats]:
    """Weights and sorted log rates of points after some steps of EM from equal weights on sorted log rates.

    Points stay between the lowest and the highest.
    """
    of_row = np.floor(0.5 * np.log2(np.maximum(data.counts, 1.0)))
    rows = [(level, np.flatnonzero(of_row == level)) for level in np.unique(of_row)]
    levels = [_Level.of(data.some(some), data.shares[some], level, logs) for level, some in rows]
    known = [None if level.nodes is None else level.near(level.nodes) for level in levels]
    weights, (lowest, highest) = np.full(logs.size, 1.0 / logs.size), logs[[0, -1]]
    for step in range(_STEPS):
        if step % _FILLED == _FILLED - 1:
            # Points that came together leave gaps.
            new = -_NEW * np.minimum(weights[1:], weights[:-1])
            logs, weights = np.append(logs, 0.5 * (logs[1:] + logs[:-1])), np.append(weights, new)
            order = np.argsort(logs, kind="stable")
            logs, weights = logs[order], weights[order]
        total, slope, information, square = np.sum(
            [level.slopes(logs, np.maximum(weights, 0.0), some) for level, some in zip(levels, known, strict=True)],
            axis=0,
        )
        weights = np.where(total > 1.0, np.abs(weights), weights) * np.maximum(total, 0.0) ** _LONGER
        moved = np.clip(_LONGER * slope / np.maximum(information, 1e-300), -0.7, 0.7)
        logs = np.clip(logs + moved, lowest, highest)
        kept = np.flatnonzero(weights > 1e-13 * weights.sum())
        kept = kept[np.argsort(logs[kept], kind="stable")]
        weights, logs = weights[kept] / weights[kept].sum(), logs[kept]
        # The information of counts that have any: zeros have none, and belong to all points.
        precision = np.maximum(square[kept], 0.0) / np.maximum(information[kept], 1e-300)
        near = np.diff(logs) * np.sqrt(np.maximum(precision[1:], precision[:-1])) < _CLOSE
        first = np.flatnonzero(np.append(True, ~near))
        merged = np.add.reduceat(weights, first)
        weights, logs = merged, np.add.reduceat(weights * logs, first) / merged
    return weights, np.clip(logs, lowest, highest)
