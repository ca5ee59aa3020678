"""Replace many exposures by few: Gauss nodes for similar exposures of equal counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise.priors.base import Floats
from partwise.priors.kernels.near import NO_COUNT
from partwise.priors.observations import Observations

# Below this number of observations it is not worthwhile.
_FEW = 4000
# Width of a cell, in standard deviations of a log rate estimated from one count, and its number of nodes.
_WIDTH, _NODES = 0.5, 6
_EXACT = 2 * _NODES - 1


@dataclass(frozen=True, eq=False)
class ExposureCells:
    """Groups of observations with the same count and similar exposures, if there are more of them than nodes.

    Sums over them become sums over Gauss's nodes, which are exact for polynomials of the log exposure up to degree 11.
    The likelihood p(x | s λ) is analytic in it. Turned by an angle v, log s + i v, it is at most cos(v)^-x times its
    largest value, under points and hence under mixtures of these. So the error is known for all λ at once (Trefethen,
    Approximation Theory and Approximation Practice, theorems 8.2 and 19.3).

    Attributes
    ----------
    data
        All observations.
    alone, inside
        Positions of observations that stay as they are, and of those in cells.
    cell, counts
        The cell of each of these, and the count of each cell.
    """

    data: Observations
    alone: NDArray[np.intp]
    inside: NDArray[np.intp]
    cell: NDArray[np.intp]
    counts: Floats

    @classmethod
    def of(cls, data: Observations) -> ExposureCells | None:
        """The cells of some observations, or None if they hardly reduce the number."""
        if data.exposure.size == 1 or data.counts.size <= _FEW:
            return None
        places = np.floor(_log(data.exposure) * np.sqrt(np.maximum(data.counts, 1.0)) / _WIDTH)
        cells, cell, members = np.unique(data.counts + 1j * places, return_inverse=True, return_counts=True)
        full = members > _NODES
        inside = full[cell]
        if 1.5 * ((~inside).sum() + _NODES * full.sum()) > data.counts.size:
            return None
        numbers = np.cumsum(full) - 1
        return cls(data, np.flatnonzero(~inside), np.flatnonzero(inside), numbers[cell[inside]], cells.real[full])

    def observations(self) -> Observations:
        """Fewer observations that represent all, in the order of their rates."""
        return self._condensed(np.broadcast_to(self.data.repeats, self.data.counts.shape)).by_rate()

    def ratios(self, log_mixture: Floats) -> tuple[Floats, Floats, Floats, float]:
        """Counts, inverse rates and logarithms of the factors of p(x | λ) in D, and the largest error of D.

        Parameters
        ----------
        log_mixture
            Of all observations: see `Slopes`.
        """
        # Relative likelihoods of one count depend on the exposure through s λ alone, so that nodes serve all λ.
        some = self._condensed(np.exp(np.minimum(-log_mixture, 600.0)) * self.data.shares)
        counts, inverse = some.relative
        with np.errstate(divide="ignore"):
            return counts, inverse, np.log(some.repeats), self._error(some.repeats[self.alone.size :])

    def _condensed(self, weights: Floats) -> Observations:
        logs = _log(self.data.exposure[self.inside])
        nodes, sizes = gauss_nodes(logs, weights[self.inside], self.cell, self.counts.size, _NODES)
        return Observations(
            np.append(self.data.counts[self.alone], np.repeat(self.counts, _NODES)),
            np.append(self.data.exposure[self.alone], np.exp(nodes).ravel()),
            np.append(weights[self.alone], sizes.ravel()),
        )

    def _error(self, weights: Floats) -> float:
        """Bound of the error of a sum of such weights times likelihoods that are at most 1."""
        turned = np.sqrt(_EXACT / np.maximum(self.counts, NO_COUNT))
        ratio = np.arctan(turned) * np.sqrt(np.maximum(self.counts, 1.0)) / (0.5 * _WIDTH)
        ellipse = ratio + np.sqrt(1.0 + ratio * ratio)
        size = np.exp(0.5 * self.counts * np.log1p(turned * turned))
        return float(np.repeat(4.0 * size * ellipse**-_EXACT / (ellipse - 1.0), _NODES) @ weights)


def _log(exposure: Floats) -> Floats:
    return np.log(np.maximum(exposure, 1e-300))


def gauss_nodes(
    values: Floats, weights: Floats, cell: NDArray[np.intp], n_cells: int, n_nodes: int
) -> tuple[Floats, Floats]:
    """Nodes and their weights, cells x nodes, with the first 2 n moments of the weighted values in each cell.

    Eigenvectors of the recurrence of the orthogonal polynomials give them (Golub & Welsch 1969).
    """

    def sums(terms: Floats) -> Floats:
        return np.asarray(np.bincount(cell, weights=terms, minlength=n_cells), dtype=np.float64)

    total = sums(weights)
    centre = sums(weights * values) / total
    spread = np.sqrt(sums(weights * (values - centre[cell]) ** 2) / total) + 1e-300
    scaled = (values - centre[cell]) / spread[cell]
    before, now, norm = np.zeros(values.size), np.ones(values.size), total
    jacobi, ratio = np.zeros((n_cells, n_nodes, n_nodes)), np.zeros(n_cells)
    for k in range(n_nodes):
        jacobi[:, k, k] = sums(weights * scaled * now * now) / norm
        before, now = now, (scaled - jacobi[cell, k, k]) * now - ratio[cell] * before
        square = sums(weights * now * now)
        # Where there are fewer values than nodes, nothing is left for the later ones.
        left = square > 1e-20 * total
        ratio, norm = np.where(left, square / norm, 0.0), np.where(left, square, 1.0)
        if k + 1 < n_nodes:
            jacobi[:, k, k + 1] = jacobi[:, k + 1, k] = np.sqrt(ratio)
    nodes, vectors = np.linalg.eigh(jacobi)
    return centre[:, None] + spread[:, None] * nodes, total[:, None] * vectors[:, 0, :] ** 2
