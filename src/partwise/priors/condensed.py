"""Replace many exposures, or many points, by few: Gauss nodes for those that are similar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.priors.base import Floats
from partwise.priors.kernels.near import NO_COUNT
from partwise.priors.observations import Observations

# Below this number of observations it is not worthwhile.
_FEW = 4000
# Width of a cell, in standard deviations of a log rate estimated from one count, and its number of nodes.
_WIDTH, _NODES = 0.5, 6
# The same for points of a mixture, as counts below a power of 4 see them.
_SEEN_WIDTH, _SEEN_NODES = 2.0, 12


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
        alone, inside, cell, cells = _full_cells(data.counts + 1j * places, _NODES)
        if 1.5 * (alone.size + _NODES * cells.size) > data.counts.size:
            return None
        return cls(data, alone, inside, cell, cells.real)

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
        # Bound of the error of a sum of such weights times likelihoods that are at most 1.
        widths = _WIDTH / np.sqrt(np.maximum(self.counts, 1.0))
        errors = np.repeat(gauss_error(self.counts, widths, _NODES), _NODES)
        with np.errstate(divide="ignore"):
            return counts, inverse, np.log(some.repeats), float(errors @ some.repeats[self.alone.size :])

    def _condensed(self, weights: Floats) -> Observations:
        logs = _log(self.data.exposure[self.inside])
        nodes, sizes = gauss_nodes(logs, weights[self.inside], self.cell, self.counts.size, _NODES)
        return Observations(
            np.append(self.data.counts[self.alone], np.repeat(self.counts, _NODES)),
            np.append(self.data.exposure[self.alone], np.exp(nodes).ravel()),
            np.append(weights[self.alone], sizes.ravel()),
        )


def condensed_points(weights: Floats, means: Floats, level: float) -> tuple[Floats, Floats]:
    """Weights and sorted means of fewer points, which give counts below 4 ** level alike but for `seen_error`."""
    logs = np.log(np.maximum(means, 1e-300))
    places = np.where(means > 0, np.floor(logs / (_SEEN_WIDTH * 0.5**level)), -np.inf)
    alone, inside, cell, cells = _full_cells(places, _SEEN_NODES)
    nodes, sizes = gauss_nodes(logs[inside], weights[inside], cell, cells.size, _SEEN_NODES)
    fewer = np.append(means[alone], np.exp(nodes))
    order = np.argsort(fewer, kind="stable")
    return np.append(weights[alone], sizes)[order], fewer[order]


def seen_error(counts: Floats, level: float) -> Floats:
    """Bounds of the error of likelihoods, relative to the best rate, under `condensed_points`."""
    return gauss_error(counts, np.full(counts.size, _SEEN_WIDTH * 0.5**level), _SEEN_NODES)


def gauss_error(counts: Floats, widths: Floats, n_nodes: int) -> Floats:
    """Bounds of the error of nodes for log exposures, or log rates, that lie so close, if their weights sum to 1."""
    exact = 2 * n_nodes - 1
    turned = np.sqrt(exact / np.maximum(counts, NO_COUNT))
    ratio = np.arctan(turned) / (0.5 * widths)
    ellipse = ratio + np.sqrt(1.0 + ratio * ratio)
    return np.asarray(4.0 * np.exp(0.5 * counts * np.log1p(turned * turned)) * ellipse**-exact / (ellipse - 1.0))


def _full_cells(places: NDArray[Any], most: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], Any]:
    """Positions of what stays alone and of what shares its place with more others, the cell of these, and the cells."""
    cells, cell, members = np.unique(places, return_inverse=True, return_counts=True)
    full = members > most
    inside = full[cell]
    return np.flatnonzero(~inside), np.flatnonzero(inside), (np.cumsum(full) - 1)[cell[inside]], cells[full]


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
