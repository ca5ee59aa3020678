"""Labels of tokens and their counts: the start of all samplers.

Fits start from KL-NMF. From noise, samplers take long to get there, and variational Bayes never does.

For large data, a sample of the rows is enough. All rows would take longer than the sweeps that they save.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln

from partwise.allocation.kernels.by_features import room_for, sweep_by_features
from partwise.allocation.kernels.collapsed import Labelled, Totals, sweep_tokens
from partwise.allocation.model import MANY_COMPONENTS, AllocationModel
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import first_tokens
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.kernels.lanes import LANES
from partwise.passes.side import Side
from partwise.poisson.inference.coordinate import CoordinateDescent, with_columns
from partwise.poisson.inference.multiplicative import Multiplicative
from partwise.poisson.inference.state import PoissonState, Start
from partwise.sampling.draws import label_type

# More iterations do not lead to better optima: the model's own algorithm does the rest.
_ITERATIONS = 20
# From this many nonzeros times parts on, use EM alone: in equal time, coordinate descent gets a sampler no further.
_LARGE_WORK = 2**24
# Thirty iterations for 100 parts. With 1,000 parts, thirty gain little over ten and cost as much as ten sweeps.
_EM_ITERATIONS, _FEWEST, _MOST = 3000, 10, 30
# This many nonzeros (or rows, if they are short) represent data with more than twice as many.
_NONZEROS, _ROWS = 2**19, 2**13
_ROWS_PER_COMPONENT, _SHORT_ROWS_PER_COMPONENT = 4, 80
# A kernel visits this many tokens in well under a second.
_TOKENS_AT_ONCE = 2**22


def kl_factors(
    key: Key, data: SparseData, n_components: int, start: Start, n_iterations: int, engine: Engine
) -> PoissonState:
    """Factors after some iterations of KL-NMF; columns of the dictionary sum to 1."""
    solver = CoordinateDescent(n_components, start, engine)
    factors = solver.init(key, data)
    for iteration in range(1, n_iterations + 1):
        factors, _ = solver.step(key.at(iteration), data, factors)
    return factors


def first_feature_counts(key: Key, data: SparseData, model: AllocationModel, start: Start, engine: Engine) -> Floats:
    """Expected counts, features x parts, after some iterations of KL-NMF on the data, or on a part of the rows."""
    n_components, total = model.n_components, data.total
    large = data.nnz * n_components > _LARGE_WORK
    chosen = chosen_rows(key, data, n_components) if large else None
    if chosen is not None:
        start = (start[0][chosen], start[1]) if isinstance(start, tuple) else start
        data, engine = data.take(chosen), engine.here
    data, engine = with_columns(data, engine)
    if not large:
        factors = kl_factors(key, data, n_components, start, _ITERATIONS, engine)
    else:
        solver = Multiplicative(n_components, start, engine)
        factors = solver.init(key, data)
        for iteration in range(1, min(max(_EM_ITERATIONS // n_components, _FEWEST), _MOST) + 1):
            factors, _ = solver.step(key.at(iteration), data, factors)
    counts = factors.dictionary * Side(data, engine).totals(factors.activations) * (total / max(data.total, 1.0))
    if np.ptp(model.activation_concentration) > 0:
        counts = counts[:, best_order(model, np.asarray(factors.activations))]
    return np.ascontiguousarray(counts)


def chosen_rows(key: Key, data: SparseData, n_components: int) -> NDArray[np.intp] | None:
    """A random sample of rows that represents large data, in order; None for all rows."""
    if data.nnz <= 2 * _NONZEROS and data.shape[0] <= 2 * max(_ROWS, _SHORT_ROWS_PER_COMPONENT * n_components):
        return None
    order = key.for_stage("rows").generator().permutation(data.shape[0])
    enough = int(np.searchsorted(np.cumsum(np.diff(data.indptr)[order]), _NONZEROS)) + 1
    enough = min(enough, max(_ROWS, _SHORT_ROWS_PER_COMPONENT * n_components))
    return np.sort(order[: max(enough, _ROWS_PER_COMPONENT * n_components)])


def best_order(model: AllocationModel, sample_counts: Floats) -> NDArray[np.intp]:
    """Match parts to unequal β by the best order, because only Σ log Γ(β_k + S_n+k) depends on it."""
    beta = model.activation_concentration
    if np.ptp(beta) == 0:
        return np.arange(beta.size)
    gains = np.array([gammaln(concentration + sample_counts).sum(axis=0) for concentration in beta])
    return np.asarray(linear_sum_assignment(gains, maximize=True)[1])


_MOST_TOKENS = 2**31
_WITHOUT_LABELS = "use inference='vb' or 'bld', whose memory does not grow with the counts"
# Parts, and tokens per row, from which a sweep feature by feature is 15% to 20% faster than one row by row.
_SEVERAL, _LONG_ROW = 64, 64
# 4-byte entries that a sweep works on at a time, to stay in a cache of 1 MB.
_TILE = 200_000


def padded_width(n_components: int) -> int:
    """Number of parts, including those appended to fill the lanes of a sweep."""
    return -(-n_components // LANES) * LANES


def tile_of(width: int) -> int:
    """Number of features that a sweep works on at a time, given how many numbers of each are read and written."""
    return max(1, _TILE // width)


def keys_of_rows(data: SparseData) -> int:
    """Number of streams for the rows of a tile."""
    return data.shape[0] + 1


def check_tokens(data: SparseData, caller: str, remedy: str = _WITHOUT_LABELS) -> None:
    """Refuse data with more tokens than labels can be kept for."""
    if data.total > _MOST_TOKENS:
        raise InvalidInputError(f"{caller} keeps a label for each token, and X has {data.total:.3g} of them: {remedy}.")


def guide_counts(
    key: Key, data: SparseData, model: AllocationModel, start: Start, engine: Engine
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """KL-NMF counts of features in parts, rounded to whole numbers, and their sums; those of the data may be added."""
    counts = first_feature_counts(key, data, model, start, engine)
    counts *= min(1.0, 0.9 * (_MOST_TOKENS - data.total) / max(data.total, 1.0))
    whole = np.rint(counts).astype(np.int32)
    return whole, whole.sum(axis=0, dtype=np.int64)


@dataclass
class TokenLabels:
    """Labels of all tokens and their counts: lists of one array per chain.

    The label K means none yet. ``feature_counts`` are padded with zeros to whole lanes. Labels and arrays with one row
    per sample may be on workers.
    """

    labels: list[Any]
    sample_counts: list[Any]
    feature_counts: list[NDArray[np.int32]]
    component_counts: list[NDArray[np.int64]]

    @classmethod
    def none_yet(cls, data: SparseData, n_components: int, n_chains: int, **more: Any) -> Self:
        """No token has a label yet; ``more`` are further fields of a subclass."""
        (n_samples, n_features), chains = data.shape, range(n_chains)
        return cls(
            [np.full(int(data.total), n_components, label_type(n_components + 1)) for _ in chains],
            [np.zeros((n_samples, n_components), np.int32) for _ in chains],
            [np.zeros((n_features, padded_width(n_components)), np.int32) for _ in chains],
            [np.zeros(n_components, np.int64) for _ in chains],
            **more,
        )

    def of_chain(self, chain: int) -> tuple[Any, Any, Any, Any]:
        """Labels and counts of one chain, in the order of the fields."""
        counts = self.sample_counts[chain], self.feature_counts[chain], self.component_counts[chain]
        return self.labels[chain], *counts

    def sweep(self, key: Key, data: SparseData, model: AllocationModel, chain: int) -> None:
        """One collapsed sweep of one chain over all rows, in place. Tokens without a label get one."""
        by_features = goes_by_features(data, model.n_components)
        sweep(key, data, model, (0, data.shape[0]), self.of_chain(chain), by_features=by_features)


def goes_by_features(data: SparseData, n_components: int) -> bool:
    """Whether a sweep goes feature by feature: it does with many parts, and with fewer if rows are long."""
    if n_components >= MANY_COMPONENTS:
        return True
    return n_components >= _SEVERAL and data.total >= _LONG_ROW * data.shape[0] and not data.by_rows


def sweep(
    key: Key,
    data: SparseData,
    model: AllocationModel,
    rows: tuple[int, int],
    state: Labelled,
    *,
    features: tuple[int, int] | None = None,
    totals: Totals | None = None,
    streams: tuple[int, int] | None = None,
    by_features: bool = False,
) -> None:
    """One collapsed sweep over some rows, in place: labels and their counts change. Tokens without a label get one.

    Parameters
    ----------
    key, data, model
        Key of the random numbers, the data and the model.
    rows, features
        Those to visit; None = all features.
    state
        Labels and counts.
    totals
        Factors of the parts, and what their counts are added to; None = 1 and α_+.
    streams
        If the data are some rows of larger data, the first of them there, and `keys_of_rows` of the larger data.
    by_features
        Whether to go feature by feature, which is faster with many parts.
    """
    if totals is None:
        totals = np.ones(model.n_components), np.full(model.n_components, model.dictionary_concentration.sum())
    priors = model.dictionary_concentration, model.activation_concentration
    features = features or (0, data.shape[1])
    if by_features:
        columns = data.rows(0, data.shape[0]).transposed if data.by_rows else data.transposed
        tokens, hidden = (columns.indptr, columns.indices, columns.values, first_tokens(data)), bool(data.n_missing)
        for some in _pieces(data.column_sums, features):
            room = room_for(rows, model.n_components, state[0], tokens[-1], hidden)
            sweep_by_features(tokens, priors, totals, key.words, (*rows, *some), hidden, room, state)
        return
    tokens = data.indptr, data.indices, data.values, first_tokens(data)
    tile, streams = tile_of(state[2].shape[1]), streams or (0, keys_of_rows(data))
    for some in _pieces(data.row_sums, rows):
        by_cells = some[1] == some[0] + 1 and data.row_sums[some[0]] > _TOKENS_AT_ONCE
        for n, cells in enumerate(_row_pieces(data, some[0], features) if by_cells else [features]):
            # The streams of a row start again in every call.
            own = key.for_stage(f"piece {n}") if n else key
            sweep_tokens(tokens, priors, totals, tile, own.words, streams, (*some, *cells), state)


def _pieces(sizes: Any, between: tuple[int, int]) -> list[tuple[int, int]]:
    """Cut a range of rows or features so that Ctrl-C takes effect between two calls of a kernel."""
    start, stop = between
    before = np.concatenate(([0.0], np.cumsum(sizes[start:stop])))
    cuts = [0]
    while cuts[-1] < stop - start:
        most = int(np.searchsorted(before, before[cuts[-1]] + _TOKENS_AT_ONCE, "right")) - 1
        cuts.append(max(most, cuts[-1] + 1))
    return [(start + first, start + last) for first, last in pairwise(cuts)]


def _row_pieces(data: SparseData, row: int, features: tuple[int, int]) -> list[tuple[int, int]]:
    """The same for the features of one long row."""
    cells = slice(data.indptr[row], data.indptr[row + 1])
    return _pieces(np.bincount(data.indices[cells], data.values[cells], data.shape[1]), features)
