"""Kernels of document completion over one block of rows: the split of the tokens, and the prediction of one half."""

import math

from partwise.kernels.arrays import Cells, Missing, Numbers, Triple, Words
from partwise.kernels.discrete import binomial
from partwise.kernels.jit import kernel
from partwise.kernels.streams import new_stream, next_normal, next_uniform, seek_row
from partwise.likelihood.kernels.rows import Floats, Integers

# Up to here all whole numbers are doubles, and the binomial draw is exact.
_LARGEST_WHOLE = 2.0**53


@kernel
def split_rows(
    indptr: Integers, values: Numbers, share: float, words: Words, first_row: int, start: int, stop: int, out: Numbers
) -> None:
    """``out = rng.binomial(floor(values), share) + (rng.random(size) < share) * (values - floor(values))``.

    Row n uses the stream of row ``first_row + n``. Above 2**53 the binomial equals a normal distribution to far more
    than double precision, and the draw is rounded so that ``values - out`` is exact.
    """
    stream = new_stream()
    for n in range(start, stop):
        seek_row(stream, words, first_row + n)
        for p in range(indptr[n], indptr[n + 1]):
            value = float(values[p])
            if value > _LARGEST_WHOLE:
                spread = math.sqrt(share * (1.0 - share)) * math.sqrt(value) * next_normal(stream)
                rest = value - min(max(share * value + spread, 0.0), value)
                out[p] = value - rest
                continue
            whole = math.floor(value)
            given = float(binomial(stream, int(whole), share))
            if value > whole and next_uniform(stream) < share:
                given += value - whole
            out[p] = given


@kernel
def predict_rows(
    cells: Cells, missing: Missing, factors: Triple, smoothing: float, start: int, stop: int, out: Floats
) -> None:
    """``out = (X * log((1 - smoothing) * rates / rates.sum() + smoothing / n_observed)).sum() / X.sum()``, row by row.

    Rates are those of observed cells. ``totals`` is ``dictionary.sum(axis=0)``. Where all rates are 0, they count as
    equal; rows without counts get 0.
    """
    (indptr, indices, values), (missing_indptr, missing_indices) = cells, missing
    activations, dictionary, totals = factors
    n_features, n_components = dictionary.shape
    for n in range(start, stop):
        out[n] = 0.0
        row = activations[n]
        hidden = missing_indices[missing_indptr[n] : missing_indptr[n + 1]]
        expected = 0.0
        for k in range(n_components):
            expected += row[k] * totals[k]
        before = expected
        for f in hidden:
            for k in range(n_components):
                expected -= row[k] * dictionary[f, k]
        if expected < 1e-8 * before:
            # Nearly all of it was hidden, so that subtraction left no digits: sum the observed cells.
            expected = 0.0
            next_hidden = 0
            for f in range(n_features):
                if next_hidden < hidden.size and hidden[next_hidden] == f:
                    next_hidden += 1
                    continue
                for k in range(n_components):
                    expected += row[k] * dictionary[f, k]
        even = 1.0 / max(n_features - hidden.size, 1)
        tokens = 0.0
        for p in range(indptr[n], indptr[n + 1]):
            tokens += values[p]
        for p in range(indptr[n], indptr[n + 1]):
            probability = even
            if expected > 0.0:
                rate = 0.0
                for k in range(n_components):
                    rate += row[k] * dictionary[indices[p], k]
                probability = (1.0 - smoothing) * min(rate / expected, 1.0) + smoothing * even
            out[n] += values[p] / tokens * math.log(probability)
