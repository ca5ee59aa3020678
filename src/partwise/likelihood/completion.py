"""Document completion: predict the second half of each sample's tokens from the first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData

Floats = NDArray[np.float64]

# Share of the prediction that is spread evenly over all features: without a prior, a feature that no part of the
# model holds has probability 0, and one such token would make the whole score -inf.
SMOOTHING = 1e-3


@dataclass(frozen=True)
class Completion:
    """Log probability of the held-out tokens of each row, in nats, and how many there were."""

    values: Floats
    tokens: Floats

    @property
    def per_token(self) -> float:
        """Mean log probability of a held-out token; 0 if there was none."""
        total = float(self.tokens.sum())
        return float(self.values.sum()) / total if total > 0 else 0.0


def predict_tokens(held_out: SparseData, activations: Floats, dictionary: Floats) -> Completion:
    """Log probability of each row's held-out tokens under the rates fitted to the other half.

    The probability of a token of feature f in row n is rate_nf over the sum of the row's rates in observed cells, mixed
    with ``SMOOTHING`` of the even distribution over these cells. A row whose given half is empty is predicted evenly.
    """
    n_rows, n_features = held_out.shape
    totals = dictionary.sum(axis=0)
    values = np.zeros(n_rows)
    tokens = np.zeros(n_rows)
    for n in range(n_rows):
        cells = slice(held_out.indptr[n], held_out.indptr[n + 1])
        hidden = held_out.missing_indices[held_out.missing_indptr[n] : held_out.missing_indptr[n + 1]]
        counts = np.asarray(held_out.values[cells], dtype=np.float64)
        tokens[n] = counts.sum()
        if tokens[n] == 0:
            continue
        expected = float(totals @ activations[n])
        if hidden.size:
            expected -= float((dictionary[hidden] @ activations[n]).sum())
        rates = dictionary[held_out.indices[cells]] @ activations[n]
        expected = max(expected, float(rates.sum()))
        even = 1.0 / (n_features - hidden.size)
        share = rates / expected if expected > 0 else np.full(counts.size, even)
        values[n] = float(counts @ np.log((1.0 - SMOOTHING) * share + SMOOTHING * even))
    return Completion(values, tokens)
