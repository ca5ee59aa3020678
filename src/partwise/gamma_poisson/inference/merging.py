"""Components that the data do not need apart: what merging two of them would gain, at least."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.gamma_poisson.inference.m_steps import ValueCounts, profile_shapes
from partwise.gamma_poisson.inference.online import take_rows
from partwise.gamma_poisson.model import GammaPoissonModel
from partwise.likelihood.exact import exact, exact_cost

Floats = NDArray[np.float64]

# Samples that merges are judged by, and multiply-adds for the exact likelihoods of one pair in one draw: 0.2 s or so.
_MOST_SAMPLES, _MOST_COST = 300, 5e8
_CELLS_AT_ONCE = 2**16
# A merge must gain more than nothing by so many standard errors.
_ERRORS = 3.0


@dataclass(frozen=True)
class Merge:
    """Component ``absorbed`` goes into ``kept``, with a new column and shape; gain in nats, with its error."""

    kept: int
    absorbed: int
    column: Floats
    shape: float
    gain: float
    error: float


@dataclass(frozen=True)
class Merging:
    """Finds merges that increase the marginal likelihood.

    EM creeps where two components share what one could hold: it took thousands of iterations over the last nats. A
    merge is one step. Given all other allocations, the sum c_jk of what two components hold has the likelihood of a
    model of two components before, and of one component, a negative multinomial, after. By Jensen's inequality

        log p(X | merged) - log p(X) >= E[log p(c_jk | merged) - log p(c_jk | both)],

    with draws of c_jk given X; bounds of disjoint pairs add up. Both likelihoods are exact.
    """

    data: SparseData
    model: GammaPoissonModel
    estimate_shape: bool

    def find(self, key: Key, draws: list[Floats]) -> list[Merge]:
        """Disjoint merges that gain, the best first, judged by draws of the activations from independent chains."""
        key = key.for_stage("merging")
        n_samples = self.data.shape[0]
        rows = np.sort(key.generator().permutation(n_samples)[:_MOST_SAMPLES])
        some = replace(self, data=take_rows(self.data, rows))
        draws = [activations[rows] for activations in draws]
        cells = [some._rates(activations) for activations in draws]
        found: list[Merge] = []
        for number, (kept, absorbed) in enumerate(self.candidates()):
            merge = some._judged(key.for_chain(number), kept, absorbed, draws, cells, n_samples / rows.size)
            if merge is not None and merge.gain > _ERRORS * merge.error:
                found.append(merge)
        chosen: list[Merge] = []
        taken: set[int] = set()
        for merge in sorted(found, key=lambda merge: -merge.gain):
            if not taken & {merge.kept, merge.absorbed}:
                chosen.append(merge)
                taken |= {merge.kept, merge.absorbed}
        return chosen

    def candidates(self) -> list[tuple[int, int]]:
        """Each component that is not empty with the one most like it; the larger of both first."""
        sums = self.model.dictionary.sum(axis=0)
        alive = np.flatnonzero(sums > 0)
        if alive.size < 2:
            return []
        roots = np.sqrt(self.model.dictionary[:, alive] / sums[alive])
        affinity = roots.T @ roots
        np.fill_diagonal(affinity, -1.0)
        share = self._shares
        pairs = {tuple(sorted((int(alive[i]), int(alive[j])))) for i, j in enumerate(affinity.argmax(axis=1))}
        return [(j, k) if share[j] >= share[k] else (k, j) for j, k in sorted(pairs)]

    @property
    def _shares(self) -> Floats:
        """Expected counts of each component in a sample."""
        model = self.model
        return np.asarray(model.dictionary.sum(axis=0) * model.shape / model.rate)

    def _rates(self, activations: Floats) -> Floats:
        """Σ_k h_nk w_fk in each stored cell."""
        rows, columns = self._rows, self.data.indices
        rates = np.empty(columns.size)
        for start in range(0, columns.size, _CELLS_AT_ONCE):
            part = slice(start, start + _CELLS_AT_ONCE)
            rates[part] = np.einsum("pk,pk->p", activations[rows[part]], self.model.dictionary[columns[part]])
        return rates

    @property
    def _rows(self) -> NDArray[np.intp]:
        return np.repeat(np.arange(self.data.shape[0]), np.diff(self.data.indptr))

    def _judged(
        self, key: Key, kept: int, absorbed: int, draws: list[Floats], cells: list[Floats], scale: float
    ) -> Merge | None:
        """What a merge gains in all data, ``scale`` times as many as here; None if that costs too much to know."""
        pair = [kept, absorbed]
        held = [
            self._held(key.at((key.iteration << 8) + number), pair, activations, rates)
            for number, (activations, rates) in enumerate(zip(draws, cells, strict=True))
        ]
        shape = float(self.model.shape[kept])
        if self.estimate_shape:
            totals = ValueCounts(np.concatenate([counts.row_sums for counts in held]))
            shape = float(profile_shapes([totals], np.array([shape]))[0])
        rate = self.model.rate[kept]
        means = self.model.dictionary[:, pair] * (self.model.shape[pair] / self.model.rate[pair])
        column = means.sum(axis=1) * rate / shape
        if not self._affordable(held[0], pair):
            return None
        values = np.array([self._gains(counts, pair, column, shape) for counts in held])
        gains = values.mean(axis=0)
        variance = float(np.var(values, axis=0, ddof=1).sum()) / len(draws) * scale**2
        if scale > 1:
            variance += scale**2 * gains.size * float(np.var(gains, ddof=1)) * (1.0 - 1.0 / scale)
        return Merge(kept, absorbed, column, shape, float(gains.sum()) * scale, float(np.sqrt(variance)))

    def _held(self, key: Key, pair: list[int], activations: Floats, rates: Floats) -> SparseData:
        """A draw of what two components hold together: c_nf ~ Binomial(x_nf, their share of the rate)."""
        data = self.data
        own = np.zeros(data.nnz)
        for k in pair:
            own += activations[self._rows, k] * self.model.dictionary[data.indices, k]
        share = np.minimum(own / rates, 1.0)
        counts = key.generator().binomial(data.values.astype(np.int64), share)
        return replace(data, values=counts).only(counts > 0)

    def _affordable(self, counts: SparseData, pair: list[int]) -> bool:
        model = self.model
        cost = exact_cost(counts, model.dictionary[:, pair], model.shape[pair], model.rate[pair])
        return bool(cost.cheapest.sum() <= _MOST_COST)

    def _gains(self, counts: SparseData, pair: list[int], column: Floats, shape: float) -> Floats:
        model = self.model
        rate = model.rate[pair]
        both = exact(counts, model.dictionary[:, pair], model.shape[pair], rate, max_cost=np.inf)
        one = exact(counts, column[:, None], shape, rate[0], max_cost=np.inf)
        return one.values - both.values
