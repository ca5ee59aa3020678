"""A bound on how far a mixture is below the best of all mixtures: over every rate, not over a grid.

With D(λ) = mean of p(x_i | λ) / p(x_i | mixture) - 1, no mixture of components λ is more than n log(1 + sup D) nats
better (Lindsay 1983). The supremum is bounded interval by interval. First by the peaks of the terms, each of which has
its peak in [l, u] at clamp(x_i / s_i, l, u): that is enough where D is well below 0. Elsewhere D is interpolated in
log λ at Chebyshev's points. It is analytic there, so that the error is known from the size of the terms on an ellipse
around the interval (Trefethen, Approximation Theory and Approximation Practice, theorem 8.2). The supremum of a
polynomial is bounded by Taylor's theorem, halving intervals until the bound is sharp. Terms that are smooth on an
interval are summed there once: narrower ones inside have their interpolant instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.special import comb

from partwise.priors.base import Floats
from partwise.priors.condensed import ExposureCells
from partwise.priors.kernels.directional import peak_sums, peaks, ratio_sums
from partwise.priors.observations import Observations

# Degree of the interpolation; sum of the half axes of the ellipse, and its half axes, for the interval [-1, 1].
_DEGREE = 16
_ELLIPSE = 5.0
_REAL, _IMAGINARY = 0.5 * (_ELLIPSE + 1 / _ELLIPSE), 0.5 * (_ELLIPSE - 1 / _ELLIPSE)
# Beside the size of a function on the ellipse.
_ERROR = 4.0 * _ELLIPSE**-_DEGREE / (_ELLIPSE - 1.0)
# How wide ellipses are at most, in standard deviations of a log rate, and in units of it.
_WIDTH, _WIDEST = 3.5, 1.5
# Half width of an interval on which a term is smooth, in standard deviations of its log rate.
_SMOOTH = 0.75
_MOST_LEVELS = 60
_MOST_PIECES = 16
# Maxima below this share of the highest do not matter yet.
_LOW_SHARE = 1e-4
# Rounding of the coefficients, relative to the largest value, and the error of however narrow an interval.
_ROUNDING, _LEAST_ERROR = 1e-10, 2e-11


_ORDERS = np.arange(_DEGREE + 1)
_NODES = np.cos(np.pi * _ORDERS / _DEGREE)


# What takes values at the nodes to the coefficients of Chebyshev's polynomials, and to those of powers.
_CHEBYSHEV = np.linalg.inv(chebyshev.chebvander(_NODES, _DEGREE)).T
_POWERS = _CHEBYSHEV @ [
    np.pad(chebyshev.cheb2poly(row[: k + 1]), (0, _DEGREE - k)) for k, row in enumerate(np.eye(_DEGREE + 1))
]
# What takes coefficients of powers to those on either half of the interval.
_SHIFTS = comb(_ORDERS[:, None], _ORDERS) * 0.5 ** np.maximum(_ORDERS[:, None] - _ORDERS, 0) * 0.5**_ORDERS
_HALVES = _SHIFTS * (-1.0) ** (_ORDERS[:, None] - _ORDERS), _SHIFTS


class SlopeTerms(NamedTuple):
    """Of D: what `ratio_sums` takes, of those observations that matter on an interval."""

    counts: Floats
    inverse: Floats
    tops: Floats
    shape: float

    def peaks(self, lows: Floats, highs: Floats, cosines: Floats) -> tuple[Floats, Floats]:
        """Sums of the largest values on each strip of log rates, and the information there."""
        out, information = np.empty((2, lows.size))
        peak_sums(self, (np.exp(lows), np.exp(highs), cosines), out, information)
        return out, information

    def on(self, low: float, high: float, negligible: float) -> tuple[SlopeTerms, float]:
        """Those that are more than negligible on an interval, and the sum of the others."""
        largest = np.empty(self.counts.size)
        peaks(*self, np.exp(low), np.exp(high), 1.0, largest)
        kept = np.flatnonzero(largest > negligible)
        if 2 * kept.size > largest.size:
            return self, 0.0
        return self._some(kept), float(largest.sum() - largest[kept].sum())

    def parted(self, low: float, high: float) -> tuple[SlopeTerms, Floats, float]:
        """Those that are not smooth on an interval, the sum of the others at its nodes, and the error of these."""
        half = 0.5 * (high - low)
        smooth = half * half * np.maximum(self.counts / (1.0 + self.counts / self.shape), 1.0) < _SMOOTH * _SMOOTH
        some, values = self._some(np.flatnonzero(smooth)), np.zeros(_NODES.size)
        if not some.counts.size:
            return self, values, 0.0
        ratio_sums(*some, np.exp(0.5 * (low + high) + half * _NODES), values)
        return self._some(np.flatnonzero(~smooth)), values, float(some.sizes(np.array([low]), np.array([high]))[0])

    def sizes(self, lows: Floats, highs: Floats) -> Floats:
        """Errors of the interpolation on intervals of log rates, from sums of the largest values around them."""
        middle, half = 0.5 * (lows + highs), 0.5 * (highs - lows)
        return _ERROR * self.peaks(middle - half * _REAL, middle + half * _REAL, np.cos(half * _IMAGINARY))[0]

    def _some(self, which: NDArray[np.intp]) -> SlopeTerms:
        return SlopeTerms(self.counts[which], self.inverse[which], self.tops[which], self.shape)


@dataclass(frozen=True, eq=False)
class Slopes:
    """D of a mixture, as a function of the log mean of a component with a given shape.

    Attributes
    ----------
    data
        The observations.
    log_mixture
        Log evidence of each count under the mixture, relative to that under the best component of this shape.
    shape
        Shape of the component; infinite for points.
    cells
        Cells of the observations, if sums are taken over these instead. The error enters the bound.
    """

    data: Observations
    log_mixture: Floats
    shape: float

    cells: ExposureCells | None = None

    def _terms(self) -> tuple[SlopeTerms, float]:
        """The terms of D, and the largest error of their sum."""
        if self.cells is not None:
            counts, inverse, tops, error = self.cells.ratios(self.log_mixture)
            return SlopeTerms(counts, inverse, tops, self.shape), error
        return SlopeTerms(*self.data.relative, np.log(self.data.shares) - self.log_mixture, self.shape), 0.0

    def supremum(self, tol: float) -> tuple[float, Floats]:
        """A bound of D over all rates, close to it where that is above ``tol``, and log rates of maxima above 0.

        The bound is infinite if D is too rough to tell.
        """
        bound, found = -1.0, [np.zeros((2, 0))]
        zero, (terms, error) = np.array([-np.inf]), self._terms()
        at_zero = float(terms.peaks(zero, zero, np.ones(1))[0][0]) + (error - 1.0)
        negligible = 1e-3 * tol / max(terms.counts.size, 1)
        pending = [_Intervals(terms, error, *self._range())]
        for _ in range(_MOST_LEVELS):
            open_ones = []
            for some in pending:
                tops, half = some.tops()
                low = tops <= tol
                if at_zero > 0 and some.lows[0] == -np.inf and tops[0] <= at_zero + 0.1 * max(tol, at_zero):
                    low[0] = True
                    found.append(np.array([[-np.inf], [at_zero]]))
                bound = max(bound, float(np.max(tops[low], initial=-1.0)))
                open_ones.append(some.some(~low, half[~low]))
            errors, least, tops, places = _interpolated(open_ones, tol)
            # Halves of an interval that has little more than the least error would be no better.
            rough = errors > np.maximum(0.1 * np.maximum(tol, tops), 2.0 * least)
            bound = max(bound, float(np.max((errors + tops)[~rough], initial=-1.0)))
            found.append(np.array([places, tops])[:, (tops > 0) & ~rough])
            pending, at = [], 0
            for some in open_ones:
                ready = some.ready
                again, n_ready = ~ready, int(ready.sum())
                again[ready] = rough[at : at + n_ready]
                at += n_ready
                halves = np.where(ready, 0.5 * some.half, some.half)
                pending += [some.inside(k, halves[k], negligible) for k in np.flatnonzero(again).tolist()]
            if not pending:
                return bound, _local_maxima(np.concatenate(found, axis=1), tol)
        return np.inf, _local_maxima(np.concatenate(found, axis=1), tol)

    def _range(self) -> tuple[Floats, Floats]:
        """Intervals of log rates that contain the best: beyond the rates x / s, every term falls."""
        rates = self.data.rates[self.data.exposure > 0] if self.data.exposure.size > 1 else self.data.rates
        top = float(rates.max(initial=0.0))
        if top <= 0.0:
            return np.array([-np.inf]), np.array([-np.inf])
        lowest = float(rates.min())
        if lowest > 0.0:
            edges = np.linspace(np.log(lowest), np.log(top), int(np.log(top / lowest) / 4.0) + 2)
            return edges[:-1], edges[1:]
        edges = np.arange(np.log(top), np.log(1e-9 * self.data.number / self.data.total_exposure) - 4.0, -4.0)[::-1]
        return np.append(-np.inf, edges[:-1]), edges


class _Intervals(NamedTuple):
    """Intervals of log rates: terms of D there, the sum of others, values at nodes of smooth terms, and half widths."""

    terms: SlopeTerms
    omitted: float
    lows: Floats
    highs: Floats
    smooth: Floats | None = None
    half: Floats = _NODES

    @property
    def ready(self) -> NDArray[np.bool_]:
        """Whether each is narrow enough for an interpolation."""
        return 0.5 * (self.highs - self.lows) <= 1.001 * self.half

    def some(self, which: NDArray[np.bool_], half: Floats) -> _Intervals:
        """Some of them, with the half widths that they may have."""
        smooth = None if self.smooth is None else self.smooth[which]
        return _Intervals(self.terms, self.omitted, self.lows[which], self.highs[which], smooth, half)

    def tops(self) -> tuple[Floats, Floats]:
        """Bounds of D, and half widths that are narrow enough for an interpolation."""
        sums, information = self.terms.peaks(self.lows, self.highs, np.ones(self.lows.size))
        if self.smooth is not None:
            powers = self.smooth @ _POWERS
            sums += powers[:, 0] + np.abs(powers[:, 1:]).sum(axis=1) + _ROUNDING
        half = np.minimum(_WIDEST, _WIDTH / np.sqrt(np.maximum(information, 1e-300))) / _IMAGINARY
        return sums + (self.omitted - 1.0), half

    def inside(self, k: int, half: float, negligible: float) -> _Intervals:
        """Interval k in pieces, with the terms that matter there and are not smooth."""
        low, high = self.lows[k], self.highs[k]
        terms, omitted = self.terms.on(low, high, negligible)
        lows, highs = _cut(low, high, half)
        if low == -np.inf:
            return _Intervals(terms, self.omitted + omitted, lows, highs)
        terms, values, error = terms.parted(low, high)
        if self.smooth is not None:
            values = values + self.smooth[k]
        return _Intervals(terms, self.omitted + omitted + error, lows, highs, _in_pieces(lows.size) @ values)

    def interpolation(self) -> tuple[Floats, ...]:
        """Of those that are ready: coefficients, errors, the least that these can be, middles and half widths."""
        ready = self.ready
        lows, highs = self.lows[ready], self.highs[ready]
        middle, half = 0.5 * (lows + highs), np.maximum(0.5 * (highs - lows), 1e-15)
        values = np.empty(lows.size * _NODES.size)
        ratio_sums(*self.terms, np.exp(middle[:, None] + half[:, None] * _NODES).ravel(), values)
        values = values.reshape(lows.size, -1) - 1.0 + (0.0 if self.smooth is None else self.smooth[ready])
        errors = self.terms.sizes(lows, highs) + _ERROR + _ROUNDING * np.abs(values).max(axis=1) + self.omitted
        return values @ _POWERS, errors, np.full(lows.size, self.omitted + _LEAST_ERROR), middle, half


def _interpolated(intervals: list[_Intervals], tol: float) -> tuple[Floats, Floats, Floats, Floats]:
    """On each that is ready: error of the interpolation and the least, bound of the interpolant, and its place."""
    parts = [some.interpolation() for some in intervals if some.ready.any()]
    if not parts:
        return np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0)
    coefficients, errors, least, middle, half = (np.concatenate(part) for part in zip(*parts, strict=True))
    tops, places = _polynomial_tops(coefficients, tol)
    return errors, least, tops, middle + half * places


@cache
def _in_pieces(number: int) -> Floats:
    """What takes values at the nodes of an interval to those at the nodes of so many equal pieces."""
    places = (2.0 * np.arange(number)[:, None] + 1.0 + _NODES) / number - 1.0
    return np.asarray(chebyshev.chebvander(places, _DEGREE) @ _CHEBYSHEV.T)


def _local_maxima(found: Floats, tol: float) -> Floats:
    """Places whose values, the second row, are as large as at both neighbours: the largest, and others that matter."""
    places, values = found[:, np.argsort(found[0], kind="stable")]
    padded = np.concatenate(([-np.inf], values, [-np.inf]))
    high = values >= min(padded.max(), max(_LOW_SHARE * padded.max(), 0.6 * tol))
    return np.asarray(places[high & (values >= padded[:-2]) & (values >= padded[2:])])


def _cut(low: float, high: float, half: float) -> tuple[Floats, Floats]:
    """An interval in pieces of such a half width, or a few; that from 0 on (log rate -inf) loses its upper end."""
    if low == -np.inf:
        edges = np.array([-np.inf, high - 3.0, high])
    else:
        pieces = int(np.clip(np.ceil(0.5 * (high - low) / max(half, 1e-12)), 2, _MOST_PIECES))
        edges = np.linspace(low, high, pieces + 1)
    return edges[:-1], edges[1:]


def _polynomial_tops(coefficients: Floats, tol: float) -> tuple[Floats, Floats]:
    """Bounds of polynomials on [-1, 1], sharp where they are above ``tol``, and places of their largest values."""
    n = coefficients.shape[0]
    bounds, best, places = np.full(n, -np.inf), np.full(n, -np.inf), np.zeros(n)
    which, centres, half, local = np.arange(n), np.zeros(n), 1.0, coefficients
    while which.size:
        rest = np.abs(local[:, 3:]).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            vertex = np.where(local[:, 2] < 0, np.clip(-0.5 * local[:, 1] / local[:, 2], -1.0, 1.0), 0.0)
        ends = np.where(local[:, 2] < 0, vertex, np.where(local[:, 1] > 0, 1.0, -1.0))
        top = local[:, 0] + ends * (local[:, 1] + ends * local[:, 2])
        # What is surely reached: the value in the middle, and at the top of the parabola less the rest.
        for place, value in ((centres, local[:, 0]), (centres + half * ends, top - rest)):
            order = np.argsort(value, kind="stable")
            higher = order[value[order] > best[which[order]]]
            best[which[higher]], places[which[higher]] = value[higher], place[higher]
        done = (top + rest <= 0.5 * tol) | (top + rest <= best[which] + 1e-3 * np.maximum(tol, best[which]))
        done |= half < 1e-6
        np.maximum.at(bounds, which[done], (top + rest)[done])
        which, centres, local = np.tile(which[~done], 2), np.tile(centres[~done], 2), local[~done]
        half *= 0.5
        centres = centres + half * np.repeat([-1.0, 1.0], which.size // 2)
        local = np.concatenate([local @ _HALVES[0], local @ _HALVES[1]])
    return bounds, places
