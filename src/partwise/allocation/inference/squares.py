"""Exact collapsed sweeps in parallel, over squares of rows and features that share neither.

Labels in P such squares depend on each other only through the totals of the parts. Let a part have a_b tokens in square
b, and let c be α_+ plus its other tokens. The collapsed density has the factor 1 / Γ(c + a_1 + ... + a_P), which is the
integral of Π_b p_b^(c/P + a_b - 1) / Γ(c/P + a_b) over all p that sum to 1. So, given a draw
p ~ Dirichlet(c/P + a), squares are independent: in square b, p_b / (c/P + a_b) takes the place of 1 / (α_+ + S_k).
P steps visit all tokens, each with other squares. P depends on the data alone, so results do not depend on threads.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from partwise.allocation.inference.labels import TokenLabels, goes_by_features, sweep
from partwise.allocation.kernels.collapsed import count_blocks
from partwise.allocation.model import MANY_COMPONENTS, AllocationModel
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import first_tokens
from partwise.kernels.arrays import Starts

# Squares of fewer tokens are not worth a thread. With many parts, a feature takes as long to begin as many tokens.
_FEWEST_TOKENS, _MOST, _MOST_OF_MANY = 2**14, 4, 2
# While there are more tokens per part, a start sweeps half of the rows first, this often.
_TOKENS_PER_PART, _SWEEPS_OF_HALF = 600, 16


def number_of_squares(data: SparseData, n_components: int) -> int:
    """P, as large as pays for these data."""
    many = n_components >= MANY_COMPONENTS
    # Data on disk would be read by columns for each square.
    most = 1 if many and data.by_rows else _MOST_OF_MANY if many else _MOST
    return int(min(max(np.sqrt(data.total / _FEWEST_TOKENS), 1), most, *data.shape))


def sweep_squares(
    keys: Sequence[Key],
    data: SparseData,
    models: Sequence[AllocationModel],
    state: TokenLabels,
    number: int,
    engine: Engine,
) -> None:
    """One sweep of every chain, in place. All tokens have labels.

    Parameters
    ----------
    keys, models
        Of each chain: the key of the sweep, and the model with its concentrations.
    data, state
        The data, and labels and counts.
    number
        P.
    engine
        Where squares are processed.
    """
    rows, features = _cuts(data.row_sums, number), _cuts(data.column_sums, number)
    tokens = data.indptr, data.indices, data.values, first_tokens(data)
    inside = np.zeros((len(keys), number, number, models[0].n_components), np.int64)
    totals: list[Any] = [None] * len(keys)
    by_features = goes_by_features(data, models[0].n_components)

    def count(task: tuple[int, int]) -> None:
        chain, b = task
        count_blocks(tokens, features, rows[b], rows[b + 1], state.labels[chain], inside[chain, b])

    def visit(task: tuple[int, int], step: int) -> None:
        (chain, b), f = task, (task[1] + step) % number
        own_rows, own_features = (rows[b], rows[b + 1]), (features[f], features[f + 1])
        if own_rows[0] < own_rows[1]:
            counts = *state.of_chain(chain)[:3], inside[chain, b, f]
            shares: Any = {"totals": (totals[chain][0][b], totals[chain][1]), "by_features": by_features}
            key = keys[chain].for_stage(f"gibbs {step}")
            sweep(key, data, models[chain], own_rows, counts, features=own_features, **shares)

    tasks = [(chain, b) for chain in range(len(keys)) for b in range(number)]
    engine.for_each(count, tasks)
    for step in range(number):
        diagonal = np.arange(number), (np.arange(number) + step) % number
        for chain, (key, model) in enumerate(zip(keys, models, strict=True)):
            own = inside[chain][diagonal]
            state.component_counts[chain] -= own.sum(axis=0)
            others = (model.dictionary_concentration.sum() + state.component_counts[chain]) / number
            drawn = key.for_stage(f"squares {step}").generator().standard_gamma(others + own)
            totals[chain] = drawn / drawn.sum(axis=0), others
        engine.for_each(visit, tasks, step)
        for chain in range(len(keys)):
            state.component_counts[chain] += inside[chain][diagonal].sum(axis=0)


def label_by_halves(
    keys: Sequence[Key], data: SparseData, models: Sequence[AllocationModel], state: TokenLabels, engine: Engine
) -> None:
    """Give all tokens their first labels, in place: in large data after some sweeps of every second row alone.

    These rows start in the same way. A sweep of half of the rows achieves nearly as much as one of all of them.
    """
    n_components = models[0].n_components
    if data.total > _TOKENS_PER_PART * n_components and data.shape[0] > 1 and not data.by_rows:
        chosen = np.arange(0, data.shape[0], 2)
        half = data.take(chosen)
        before = TokenLabels.none_yet(half, n_components, len(keys))
        own = [key.for_stage(f"{chosen.size} rows") for key in keys]
        label_by_halves(own, half, models, before, engine)
        for number in range(1, _SWEEPS_OF_HALF + 1):
            some = [key.at(number) for key in own]
            sweep_squares(some, half, models, before, number_of_squares(half, n_components), engine)
        of_half = np.repeat(np.arange(data.shape[0]) % 2 == 0, data.row_sums.astype(np.int64))
        for chain in range(len(keys)):
            state.labels[chain][of_half], state.sample_counts[chain][chosen] = before.of_chain(chain)[:2]
            state.feature_counts[chain], state.component_counts[chain] = before.of_chain(chain)[2:]
    engine.for_each(lambda chain: state.sweep(keys[chain], data, models[chain], chain), range(len(keys)))


def _cuts(sizes: Any, number: int) -> Starts:
    """Where to cut rows or features so that each range has about as many tokens."""
    inner = np.searchsorted(np.cumsum(sizes), np.sum(sizes) * np.arange(1, number) / number)
    return np.array([0, *inner, np.size(sizes)])
