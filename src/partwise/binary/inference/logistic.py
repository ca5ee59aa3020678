"""Logistic PCA by alternating majorisation: P(x = 1) = σ(μ_f + Σ_k w_fk h_nk) with free real factors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
from scipy.special import expit, logit

from partwise.binary.inference.cells import Cells
from partwise.binary.kernels.cells import fill_indicators
from partwise.core.data import BinaryMatrix
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import row_blocks
from partwise.kernels.arrays import Floats

# Relative to the trace: makes a flat direction of an unpenalised problem solvable without changing anything else.
_JITTER = 1e-10
_CELLS_OF_A_BLOCK = 2**16
_MOST_STEPS, _SETTLED = 200, 1e-9


@dataclass
class LogisticState:
    """Intercepts of the features, activations (samples x parts) and dictionary (features x parts)."""

    intercept: Floats
    activations: Floats
    dictionary: Floats


@dataclass(frozen=True, eq=False)
class TwoSides:
    """The observed cells by samples and by features."""

    samples: Cells
    features: Cells

    @classmethod
    def of(cls, data: BinaryMatrix) -> TwoSides:
        """Build both lists of cells."""
        return cls(Cells.of(data), Cells.of(data, "dir-beta"))

    def fingerprint(self) -> str:
        """A checksum. A checkpoint uses it to recognise its data."""
        return self.samples.fingerprint()


@dataclass
class AlternatingMajorisation:
    """Update one factor after the other, each row by weighted least squares (Schein, Saul & Ungar 2003).

    The log-likelihood of a logit θ is bounded below by a parabola that touches it at the current θ, with curvature
    tanh(θ/2) / (2 θ), the tightest possible one (Jaakkola & Jordan 2000). At large logits it is far flatter than the
    usual bound of 1/4, so steps are longer. The objective, Σ log P(x) - penalty / 2 (|activations|² + |dictionary|²),
    never falls.
    """

    n_components: int
    _: KW_ONLY
    penalty: float
    intercept: bool
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: TwoSides) -> LogisticState:
        """Intercepts from the features' frequencies, factors from a truncated SVD of the rest."""
        from sklearn.utils.extmath import randomized_svd

        matrix = data.samples.matrix
        share = (matrix.column_sums + 0.5) / (data.features.row_sizes + 1.0)
        start = logit(share) if self.intercept else np.zeros(matrix.shape[1])
        zeros, ones = np.empty(matrix.shape), np.empty(matrix.shape)
        fill_indicators(data.samples.row_starts, data.samples.codes, 0, matrix.shape[0], zeros, ones)
        residual = 4.0 * (ones * (1.0 - share) - zeros * share)
        rank = min(self.n_components, *matrix.shape)
        seed = int(key.for_stage("start").generator().integers(2**31))
        left, sizes, right = randomized_svd(residual, rank, random_state=seed)
        roots = np.sqrt(sizes)
        state = LogisticState(
            start, np.zeros((matrix.shape[0], self.n_components)), np.zeros((matrix.shape[1], self.n_components))
        )
        state.activations[:, :rank], state.dictionary[:, :rank] = left * roots, right.T * roots
        return state

    def step(self, key: Key, data: TwoSides, state: LogisticState) -> tuple[LogisticState, Mapping[str, float]]:
        """Update activations, then intercepts and dictionary; the objective is computed between the two."""
        ridge = np.full(self.n_components, self.penalty)
        activations, _ = improve_rows(
            data.samples, state.activations, state.dictionary, state.intercept, ridge, self.engine
        )
        design, factor, intercept = activations, state.dictionary, state.intercept
        if self.intercept:
            design = np.column_stack((np.ones(activations.shape[0]), activations))
            factor = np.column_stack((state.intercept, state.dictionary))
            ridge = np.concatenate(([0.0], ridge))
        offset = np.zeros(activations.shape[0])
        factor, reached = improve_rows(data.features, factor, design, offset, ridge, self.engine)
        if self.intercept:
            intercept, factor = factor[:, 0].copy(), factor[:, 1:].copy()
        sizes = float(np.sum(activations**2) + np.sum(state.dictionary**2))
        return LogisticState(intercept, activations, factor), {"objective": reached - 0.5 * self.penalty * sizes}


def improve_rows(
    cells: Cells, factor: Floats, design: Floats, offset: Floats, ridge: Floats, engine: Engine
) -> tuple[Floats, float]:
    """One majorisation step for every row of ``factor``, with logits ``offset + factor @ design.T``.

    Returns the new factor, and Σ log P(x) at the old one.
    """
    n_columns, size = design.shape
    pairs = np.einsum("fk,fl->fkl", design, design).reshape(n_columns, size * size)
    out = np.empty_like(factor)

    def one(block: tuple[int, int]) -> float:
        start, stop = block
        zeros, ones = np.empty((stop - start, n_columns)), np.empty((stop - start, n_columns))
        fill_indicators(cells.row_starts, cells.codes, start, stop, zeros, ones)
        logits = factor[start:stop] @ design.T + offset
        signs = ones - zeros
        value = float(-np.sum(np.logaddexp(0.0, -signs * logits) * (zeros + ones)))
        curvature = (zeros + ones) * _curvature(logits)
        gram = (curvature @ pairs).reshape(stop - start, size, size)
        right = (0.5 * signs - curvature * offset) @ design
        extra = ridge + _JITTER * np.maximum(np.trace(gram, axis1=1, axis2=2), 1e-30)[:, None] / size
        gram[:, np.arange(size), np.arange(size)] += extra
        # A jitter that pulls towards the current value moves nothing by itself.
        right += (extra - ridge) * factor[start:stop]
        out[start:stop] = np.linalg.solve(gram, right[:, :, None])[:, :, 0]
        return value

    return out, float(engine.map_reduce(one, row_blocks(np.arange(cells.shape[0] + 1) * n_columns, _CELLS_OF_A_BLOCK)))


def _curvature(logits: Floats) -> Floats:
    """tanh(θ/2) / (2 θ), which is 1/4 at 0."""
    small = np.abs(logits) < 1e-4
    safe = np.where(small, 1.0, logits)
    return np.where(small, 0.25, np.tanh(0.5 * safe) / (2.0 * safe))


def probabilities(activations: Floats, dictionary: Floats, intercept: Floats) -> Floats:
    """σ(μ_f + Σ_k w_fk h_nk) of every cell."""
    return np.asarray(expit(activations @ dictionary.T + intercept))


def activations_given(cells: Cells, dictionary: Floats, intercept: Floats, penalty: float, engine: Engine) -> Floats:
    """Activations of samples for a fixed dictionary: one concave problem per sample.

    Without a penalty the best activations may be infinite; the steps then end far out, at a finite point.
    """
    activations = np.zeros((cells.shape[0], dictionary.shape[1]))
    ridge = np.full(dictionary.shape[1], penalty)
    for _ in range(_MOST_STEPS):
        moved, _value = improve_rows(cells, activations, dictionary, intercept, ridge, engine)
        settled = np.max(np.abs(moved - activations), initial=0.0) <= _SETTLED * (1.0 + np.abs(moved).max(initial=0.0))
        activations = moved
        if settled:
            break
    return activations


def balanced(state: LogisticState) -> LogisticState:
    """The same logits with orthogonal parts, largest first, and factors of equal size; signs by the largest entry."""
    left, right = np.linalg.qr(state.activations), np.linalg.qr(state.dictionary)
    u, sizes, v = np.linalg.svd(left.R @ right.R.T)
    rank = sizes.size
    roots = np.zeros(state.activations.shape[1])
    roots[:rank] = np.sqrt(sizes)
    activations, dictionary = np.zeros_like(state.activations), np.zeros_like(state.dictionary)
    activations[:, :rank] = left.Q @ u[:, :rank] * roots[:rank]
    dictionary[:, :rank] = right.Q @ v[:rank].T * roots[:rank]
    at = np.abs(dictionary).argmax(axis=0)
    signs = np.where(dictionary[at, np.arange(at.size)] < 0, -1.0, 1.0)
    return LogisticState(state.intercept, activations * signs, dictionary * signs)
