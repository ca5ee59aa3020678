"""The posterior of one row: how noisy its counts are, and two chains over sets of parts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.kernels.arrays import Floats, Places
from partwise.metrics.dispersion import dispersion_of, leverages_of
from partwise.metrics.matching import unit_parts
from partwise.presence.chain import fit_all, run_chain

# A chain starts from the parts that have at least this share of the counts in a fit of all parts.
_START_SHARES = 0.02, 0.15
_BACKGROUND = 1e-10
# Counts that vary by more than this are not noisy: the parts do not explain them.
_LEAST_SIZE = 1.0


@dataclass(frozen=True, eq=False)
class RowSampler:
    """Runs the chains of single rows."""

    key: Key
    data: SparseData
    dictionary: Floats
    prior: Floats
    n_draws: int
    thin: int
    n_particles: int
    noise: str = "estimate"

    def row(self, n: int) -> tuple[Floats, Floats, float, float]:
        """Presence probabilities, draws x parts of the activations, disagreement of two chains, size of the noise."""
        n_features, n_parts = self.dictionary.shape
        cells = slice(self.data.indptr[n], self.data.indptr[n + 1])
        counts, columns = self.data.values[cells].astype(np.float64), self.data.indices[cells]
        weights, size = np.ones(n_features), np.inf
        weights[self.data.missing_indices[self.data.missing_indptr[n] : self.data.missing_indptr[n + 1]]] = 0.0
        seen = weights @ self.dictionary
        judged = seen > 1e-12 * np.maximum(self.dictionary.sum(axis=0), 1e-300)
        prior = np.where(judged, self.prior, 0.0)
        half = self.n_draws // 2
        draws = np.zeros((2, half, n_parts))
        if not counts.size or not prior.any():  # no counts: the posterior is the prior
            return self.prior.copy(), draws.reshape(-1, n_parts), 0.0, size
        allowed = np.flatnonzero(prior)
        if self.noise == "estimate":
            weights, size = self._noise(counts, columns, weights, allowed)
        # The observed share of each part: the shares below are shares of what is observed.
        scale = np.where(judged, weights @ self.dictionary, 1.0)
        counts, scaled = counts * weights[columns], np.ascontiguousarray(self.dictionary[columns] / scale)
        with np.errstate(divide="ignore"):
            odds = prior / (1.0 - prior)
        shares = _fit_of_all(counts, scaled, allowed) / counts.sum()
        # Weights for proposing one part in place of another: parts that are similar in the cells with counts.
        units = unit_parts(scaled.T)
        alike, background = np.asarray((units @ units.T) ** 8 + 0.02), _BACKGROUND * counts.sum()
        presence = np.zeros((2, n_parts))
        for chain, smallest in enumerate(_START_SHARES):
            start = (shares >= min(smallest, shares.max())) | (prior == 1.0)
            words = self.key.for_chain(chain).words
            settings = half * self.thin // 2, half, self.thin, self.n_particles
            begin = start.astype(np.int64)
            row, beliefs = (counts, scaled, background), (odds, alike)
            run_chain(words, n, row, beliefs, begin, settings, presence[chain], draws[chain])
        unlike = float(np.abs(presence[0] - presence[1]).max())
        drawn = draws.reshape(-1, n_parts)
        if size < np.inf:  # weights are for shares: the total is that of all counts, with their noise
            known = self.data.values[cells].sum(dtype=np.float64)
            spread = np.sqrt(np.sum(counts / weights[columns] ** 2) / counts.sum())
            totals = drawn.sum(axis=1)
            totals = np.exp(spread / known * (totals - totals.mean()))
            totals *= known / totals.mean()
            drawn = drawn * (totals / (drawn @ (seen / scale)))[:, None]
        return np.where(judged, presence.mean(axis=0), self.prior), drawn / scale, unlike, size

    def _noise(self, counts: Floats, columns: NDArray[Any], observed: Floats, allowed: Places) -> tuple[Floats, float]:
        """Weights of features, and the size of the noise. Counts that vary more than Poisson counts say less.

        A feature of mean m with variance m (1 + m / size) is weighted by 1 / (1 + m / size), as if it had fewer counts
        (quasi-likelihood).
        """
        row, scale = np.zeros(observed.size), np.maximum(observed @ self.dictionary, 1e-300)
        row[columns] = counts
        fitted = _fit_of_all(counts, self.dictionary[columns] / scale, allowed) / scale
        means = observed * (self.dictionary @ fitted)
        held = means > 0
        followed = leverages_of(means[None], fitted[None], self.dictionary)[0]
        found = dispersion_of(row[held], means[held], followed[held])
        size = np.inf if found.poisson else max(found.size, _LEAST_SIZE)
        return observed / (1.0 + means / size), size


def _fit_of_all(counts: Floats, cells: Floats, allowed: Places) -> Floats:
    """Maximum-likelihood activations if all allowed parts are present."""
    fitted, total = np.zeros(cells.shape[1]), counts.sum()
    found = np.full(allowed.size, total / allowed.size)
    fit_all(counts, np.ascontiguousarray(cells), _BACKGROUND * total, allowed, found)
    fitted[allowed] = found
    return fitted
