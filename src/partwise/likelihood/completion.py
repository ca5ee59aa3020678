"""Document completion: split each sample's tokens by keyed coins, and predict the second half from the first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made, row_blocks
from partwise.errors import InvalidInputError
from partwise.likelihood.kernels.completion import predict_rows, split_rows
from partwise.likelihood.problem import Floats

Data = TypeVar("Data", bound=SparseData)


def split_tokens(data: Data, key: Key, share: float = 0.5, *, first_row: int = 0) -> tuple[Data, Data]:
    """Give each token (one unit of a count) to the first part with probability ``share``, else to the second.

    Whole counts are split binomially; the rest of a real number goes to one side as a whole. Each row has its own
    stream, so a row's split depends on its number and its counts alone. The two parts add up to the data exactly.
    Missing cells stay missing in both.

    Parameters
    ----------
    data
        Counts, or nonnegative reals.
    key
        Key of the split.
    share
        Probability of the first part.
    first_row
        Position of the first row, if these are some rows of larger data.

    Returns
    -------
    given, held_out
        Data of the same shape.
    """
    given = np.empty_like(data.values)
    words = key.for_stage("split").words
    split_rows(data.indptr, data.values, share, words, first_row, 0, data.shape[0], given)
    rest = data.values - given
    return data.with_values(given).only(given > 0), data.with_values(rest).only(rest > 0)


# Share of the prediction that is spread evenly over all features. Without a prior, a feature that no part of the
# model holds has probability 0, and one such token would make the whole score -inf.
SMOOTHING = 1e-3
# About a millisecond of work.
_NONZEROS_AT_ONCE = 2**15


@dataclass(frozen=True)
class Completion:
    """Mean log probability of a row's held-out tokens, in nats (0 if there are none), and their number."""

    means: Floats
    tokens: Floats

    @property
    def values(self) -> Floats:
        """Log probability of all held-out tokens of each row."""
        return self.means * self.tokens

    @property
    def per_token(self) -> float:
        """Mean log probability of a held-out token."""
        largest = float(self.tokens.max(initial=0.0))
        if largest == 0:
            raise InvalidInputError("X has too few tokens to hold some out and score them: pass more samples.")
        # Weights between 0 and 1, because the sum of the tokens may be infinite for extreme X.
        return float(np.average(self.means, weights=self.tokens / largest))


@dataclass(frozen=True, eq=False)
class Predictor:
    """Predicts the held-out tokens of a row.

    Attributes
    ----------
    dictionary
        Features x parts.
    solve
        ``solve(given)`` finds activations, each row on its own.
    """

    dictionary: Floats
    solve: Callable[[SparseData], Floats]


def complete(
    data: SparseData,
    key: Key,
    predictors: Sequence[Predictor],
    engine: Engine,
    share: float = 0.5,
    *,
    groups: NDArray[np.intp] | None = None,
) -> Completion:
    """Hide about half of each row's tokens, find its activations from the others, and predict the hidden ones.

    Parameters
    ----------
    data
        Counts, or nonnegative reals.
    key
        Key of the split.
    predictors
        The predictors; they are sent to the workers of a cluster.
    engine
        Where rows are processed. Neither halves nor activations leave it.
    share
        Share of the tokens that is given.
    groups
        Which predictor serves each row; None = the first.
    """
    if not 0.0 < share < 1.0:
        raise InvalidInputError(f"share must be between 0 and 1, got {share}.")
    groups = np.zeros(data.shape[0], dtype=np.intp) if groups is None else groups
    blocks = row_blocks(data.indptr, max(_NONZEROS_AT_ONCE, 2 * data.shape[1]))
    shared, made = (key, list(predictors), share), [Made((2,))]
    _, (found,) = engine.map_rows(_complete, data, blocks, *shared, reads=[groups], makes=made)
    return Completion(*np.ascontiguousarray(np.asarray(found).T))


def _complete(
    block: Block, groups: NDArray[np.intp], out: Floats, key: Key, predictors: Sequence[Predictor], share: float
) -> None:
    rows = block.data.rows(block.start, block.stop)
    given, held_out = split_tokens(rows, key, share, first_row=block.first_row + block.start)
    own = groups[block.rows]
    for group in np.unique(own):
        some = np.flatnonzero(own == group)
        first, second = (half if some.size == block.n_rows else half.take(some) for half in (given, held_out))
        found = predict_tokens(second, predictors[group].solve(first), predictors[group].dictionary)
        out[block.start + some] = np.column_stack((found.means, found.tokens))


def predict_tokens(held_out: SparseData, activations: Floats, dictionary: Floats) -> Completion:
    """Log probability of each row's held-out tokens under the rates fitted to the other half.

    The probability of a token of feature f in row n is rate_nf over the sum of the row's rates in observed cells, mixed
    with a share ``SMOOTHING`` of the even distribution over these cells. A row with an empty given half is predicted
    evenly.

    Parameters
    ----------
    held_out
        The tokens to predict.
    activations, dictionary
        Samples x parts, fitted to the other tokens, and features x parts.
    """
    means = np.empty(held_out.shape[0])
    dictionary = np.ascontiguousarray(dictionary)
    cells = held_out.indptr, held_out.indices, held_out.values
    missing = held_out.missing_indptr, held_out.missing_indices
    model = activations, dictionary, dictionary.sum(axis=0)
    predict_rows(cells, missing, model, SMOOTHING, 0, means.size, means)
    return Completion(means, held_out.row_sums)
