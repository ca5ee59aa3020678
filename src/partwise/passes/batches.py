"""Batch factors: rate_nf = s_bf m_nf for the batch b of sample n, whatever the model for m.

Under s_bf ~ Gamma(c, c), the posterior of s_bf given m is Gamma(c + Σ x, c + Σ m), with sums over the observed cells of
feature f in batch b. Allocations do not depend on s, so an algorithm for m needs only the weights E[s_bf] of its cells.
Its objective with these weights, plus a constant from the posterior of s, is a lower bound of the log-likelihood with s
integrated out. Alternating both steps raises it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.core.weights import CellWeights
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, row_blocks
from partwise.engines.local import LocalEngine
from partwise.kernels.arrays import Floats
from partwise.passes.side import Side

# Strengths beyond these do not change rates noticeably: batches do not matter, or have nothing in common.
_SMALLEST, _LARGEST = 1e-2, 1e7
# The strength is estimated in the first iterations, then occasionally: it converges early.
_ALWAYS, _EVERY = 20, 10


class BatchableAlgorithm(Protocol):
    """An algorithm for a model whose cells may have weights."""

    def init(self, key: Key, data: SparseData) -> Any:
        """The initial state."""

    def step(self, key: Key, data: SparseData, state: Any) -> tuple[Any, Mapping[str, float]]:
        """One iteration."""

    def expected_in_groups(self, data: SparseData, state: Any) -> Floats:
        """Expected totals without weights, groups of rows x features: see `expected_in_groups`."""

    def rebase(self, state: Any, change: float) -> None:
        """Add the change of the objective due to new weights to the objective stored in the state."""


@dataclass
class BatchPosterior:
    """The posterior of the batch factors.

    Attributes
    ----------
    observed, expected
        Totals of each feature in each batch (batches x features), and the totals that the model expects without
        factors.
    strength
        c of the gamma prior.
    """

    observed: Floats
    expected: Floats
    strength: float

    @property
    def factors(self) -> Floats:
        """Posterior means of the factors."""
        return np.asarray((self.strength + self.observed) / (self.strength + self.expected))

    @property
    def constant(self) -> float:
        """The bound minus the objective of the weighted data: terms of the prior and the posterior of the factors."""
        return self.log_evidence(self.strength) + float(np.sum(self.factors * self.expected))

    def log_evidence(self, strength: float) -> float:
        """Σ over batches and features of log ∫ s^x exp(-s m) Gamma(s; c, c) ds."""
        rates, shapes = strength + self.expected, strength + self.observed
        prior = strength * np.log(strength) - gammaln(strength)
        return float(np.sum(prior + gammaln(shapes) - shapes * np.log(rates)))

    def with_best_strength(self) -> BatchPosterior:
        """The same with the strength that maximises the evidence."""
        found = minimize_scalar(
            lambda log_strength: -self.log_evidence(float(np.exp(log_strength))),
            bounds=(np.log(_SMALLEST), np.log(_LARGEST)),
            method="bounded",
            options={"xatol": 1e-3},
        )
        strength = float(np.exp(found.x))
        better = self.log_evidence(strength) > self.log_evidence(self.strength)
        return BatchPosterior(self.observed, self.expected, strength if better else self.strength)


def batch_totals(data: SparseData, groups: NDArray[np.int32], n_groups: int) -> Floats:
    """Totals of each feature in each group of rows, groups x features."""
    found = np.zeros(n_groups * data.shape[1])
    for start, stop in row_blocks(data.indptr):
        pointers = data.indptr[start : stop + 1]
        stored = slice(pointers[0], pointers[-1])
        cells = np.repeat(groups[start:stop].astype(np.int64), np.diff(pointers)) * data.shape[1] + data.indices[stored]
        found += np.bincount(cells, weights=data.values[stored], minlength=found.size)
    return found.reshape(n_groups, data.shape[1])


def expected_in_groups(side: Side, activations: Any, dictionary: Floats) -> Floats:
    """Σ over the observed rows of each group of h_n . w_f, groups x features.

    Parameters
    ----------
    side
        The samples' side of weighted data.
    activations, dictionary
        Samples x parts (may be on workers), features x parts.
    """
    weights = side.data.weights
    assert weights is not None
    found = np.einsum("gk,fk->gf", np.asarray(side.totals(activations)), dictionary)
    if side.data.n_missing:
        hidden, _ = side.map_rows(_hidden, dictionary, weights, reads=[activations])
        found = np.maximum(found - hidden, 0.0)
    return np.asarray(found)


def _hidden(block: Block, activations: Floats, dictionary: Floats, weights: CellWeights) -> Floats:
    """Expected totals of the missing cells of a block."""
    assert weights.row_groups is not None
    pointers, positions = block.own_missing
    hidden = np.zeros((weights.values.shape[0], dictionary.shape[0]))
    for n in range(block.n_rows):
        columns = positions[pointers[n] : pointers[n + 1]]
        group = weights.row_groups[block.first_row + block.start + n]
        hidden[group, columns] += dictionary[columns] @ activations[block.start + n]
    return hidden


@dataclass
class BatchedAlgorithm:
    """An algorithm for parts that alternates with updates of the batch factors."""

    algorithm: BatchableAlgorithm
    groups: NDArray[np.int32]
    n_groups: int
    engine: Engine = field(compare=False)

    def weighted(self, data: SparseData, posterior: BatchPosterior) -> SparseData:
        """The data with the factors as weights of their cells."""
        return data.weighted(CellWeights(posterior.factors, self.groups))

    def init(self, key: Key, data: SparseData) -> Any:
        """Initial factors, and the initial state under them."""
        # Start from each batch's own feature frequencies relative to all. From factors of 1, the first parts would
        # absorb the differences between batches and stay in that local optimum.
        observed = batch_totals(data, self.groups, self.n_groups)
        shares = observed.sum(axis=0) / max(float(observed.sum()), 1e-300)
        expected = observed.sum(axis=1, keepdims=True) * shares
        posterior = BatchPosterior(observed, expected, 1.0).with_best_strength()
        state = self.algorithm.init(key, self.weighted(data, posterior))
        # A checkpoint is read by the types of the fields.
        kind = make_dataclass("BatchedState", [("parts", type(state)), ("batches", BatchPosterior)])
        return kind(state, posterior)

    def step(self, key: Key, data: SparseData, state: Any) -> tuple[Any, Mapping[str, float]]:
        """One iteration of the algorithm, then new factors; reports the bound."""
        before: BatchPosterior = state.batches
        weighted = self.weighted(data, before)
        state.parts, info = self.algorithm.step(key, weighted, state.parts)
        if "objective" in info:
            info = {**info, "objective": info["objective"] + before.constant}
        expected = self.algorithm.expected_in_groups(weighted, state.parts)
        after = BatchPosterior(before.observed, expected, before.strength)
        if key.iteration <= _ALWAYS or key.iteration % _EVERY == 0:
            after = after.with_best_strength()
        self.algorithm.rebase(state.parts, float(np.sum((before.factors - after.factors) * expected)))
        state.batches = after
        return state, {**info, "batch_strength": after.strength}


def new_factors(data: SparseData, activations: Any, dictionary: Floats, strength: float) -> Floats:
    """Posterior means of the factors of one batch, given the activations of its samples and the other batches."""
    groups = np.zeros(data.shape[0], np.int32)
    side = Side(data.weighted(CellWeights(np.ones((1, data.shape[1])), groups)), LocalEngine())
    expected = expected_in_groups(side, activations, dictionary)
    return np.asarray(BatchPosterior(batch_totals(data, groups, 1), expected, strength).factors[0])
