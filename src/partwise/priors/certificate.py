"""A bound on how far a mixture is below the best of all mixtures: over every rate, not over a grid.

With D(λ) = mean of p(x_i | λ) / p(x_i | mixture) - 1, no mixture of components λ is more than n log(1 + sup D) nats
better (Lindsay 1983). The supremum is bounded interval by interval. First by the peaks of the terms, each of which has
its peak in [l, u] at clamp(x_i / s_i, l, u): that is enough where D is well below 0. Elsewhere D is interpolated in
log λ at Chebyshev's points. It is analytic there, so that the error is known from the size of the terms on an ellipse
around the interval (Trefethen, Approximation Theory and Approximation Practice, theorem 8.2). The supremum of a
polynomial is bounded by Taylor's theorem, halving intervals until the bound is sharp.
"""

from __future__ import annotations

from dataclasses import dataclass
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
_MOST_LEVELS = 60
_MOST_PIECES = 16
# Maxima below this share of the highest do not matter yet.
_LOW_SHARE = 1e-4
# Rounding of the coefficients, relative to the largest value, and the error of however narrow an interval.
_ROUNDING, _LEAST_ERROR = 1e-10, 2e-11


_ORDERS = np.arange(_DEGREE + 1)
_NODES = np.cos(np.pi * _ORDERS / _DEGREE)


def _interpolation() -> Floats:
    """The matrix that takes values at the nodes to the coefficients of powers."""
    of_chebyshev = np.zeros((_DEGREE + 1, _DEGREE + 1))
    for k in _ORDERS:
        of_chebyshev[: k + 1, k] = chebyshev.cheb2poly(np.eye(_DEGREE + 1)[k, : k + 1])
    return np.asarray((of_chebyshev @ np.linalg.inv(chebyshev.chebvander(_NODES, _DEGREE))).T)


_POWERS = _interpolation()
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
        some = SlopeTerms(self.counts[kept], self.inverse[kept], self.tops[kept], self.shape)
        return some, float(largest.sum() - largest[kept].sum())


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
        # What is left to examine: intervals, with the terms that matter there, and the sum of the others.
        pending = [(terms, *self._range(), error)]
        for _ in range(_MOST_LEVELS):
            open_ones = []
            for terms, lows, highs, omitted in pending:
                sums, information = terms.peaks(lows, highs, np.ones(lows.size))
                tops = sums + (omitted - 1.0)
                low = tops <= tol
                if at_zero > 0 and lows[0] == -np.inf and tops[0] <= at_zero + 0.1 * max(tol, at_zero):
                    low[0] = True
                    found.append(np.array([[-np.inf], [at_zero]]))
                bound = max(bound, float(np.max(tops[low], initial=-1.0)))
                half = np.minimum(_WIDEST, _WIDTH / np.sqrt(np.maximum(information[~low], 1e-300))) / _IMAGINARY
                open_ones.append(_OpenIntervals(terms, omitted, lows[~low], highs[~low], half))
            errors, least, tops, places = _interpolated(open_ones, tol)
            # Halves of an interval that has little more than the least error would be no better.
            rough = errors > np.maximum(0.1 * np.maximum(tol, tops), 2.0 * least)
            bound = max(bound, float(np.max((errors + tops)[~rough], initial=-1.0)))
            found.append(np.array([places, tops])[:, (tops > 0) & ~rough])
            pending, at = [], 0
            for some in open_ones:
                again = ~some.ready
                again[some.ready] = rough[at : at + some.ready.sum()]
                at += int(some.ready.sum())
                halves = np.where(some.ready, 0.5 * some.half, some.half)
                for low, high, half in zip(some.lows[again], some.highs[again], halves[again], strict=True):
                    kept, more = some.terms.on(low, high, negligible)
                    pending.append((kept, *_cut(low, high, half), some.omitted + more))
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


class _OpenIntervals(NamedTuple):
    """Intervals of log rates where D may be large: its terms there, the sum of others, and half widths."""

    terms: SlopeTerms
    omitted: float
    lows: Floats
    highs: Floats
    half: Floats

    @property
    def ready(self) -> NDArray[np.bool_]:
        """Whether each is narrow enough for an interpolation."""
        return 0.5 * (self.highs - self.lows) <= 1.001 * self.half

    def interpolation(self) -> tuple[Floats, ...]:
        """Of those that are ready: coefficients, errors, the least that these can be, middles and half widths."""
        lows, highs = self.lows[self.ready], self.highs[self.ready]
        middle, half = 0.5 * (lows + highs), np.maximum(0.5 * (highs - lows), 1e-15)
        values = np.empty(lows.size * _NODES.size)
        ratio_sums(*self.terms, np.exp(middle[:, None] + half[:, None] * _NODES).ravel(), values)
        values = values.reshape(lows.size, -1) - 1.0
        sizes = self.terms.peaks(middle - half * _REAL, middle + half * _REAL, np.cos(half * _IMAGINARY))[0]
        errors = _ERROR * (sizes + 1.0) + _ROUNDING * np.abs(values).max(axis=1) + self.omitted
        return values @ _POWERS, errors, np.full(lows.size, self.omitted + _LEAST_ERROR), middle, half


def _interpolated(intervals: list[_OpenIntervals], tol: float) -> tuple[Floats, Floats, Floats, Floats]:
    """On each that is ready: error of the interpolation and the least, bound of the interpolant, and its place."""
    parts = [some.interpolation() for some in intervals if some.ready.any()]
    if not parts:
        return np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0)
    coefficients, errors, least, middle, half = (np.concatenate(part) for part in zip(*parts, strict=True))
    tops, places = _polynomial_tops(coefficients, tol)
    return errors, least, tops, middle + half * places


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
