"""Draws of activations and of dictionaries given allocation totals."""

from __future__ import annotations

from partwise.kernels.arrays import Floats, Word
from partwise.kernels.continuous import gamma
from partwise.kernels.jit import kernel
from partwise.kernels.streams import new_stream, seek

# Gamma draws of tiny shapes underflow; a positive number keeps every weight of a cell from vanishing.
SMALLEST = 1e-200


@kernel
def draw_activations(
    sample_counts: Floats,
    shape: Floats,
    inverse_rates: Floats,
    seed: Word,
    stage_chain: Word,
    iteration: Word,
    first_row: int,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """``out = rng.gamma(shape + sample_counts) * inverse_rates``: activations given allocation totals."""
    stream = new_stream()
    for n in range(start, stop):
        seek(stream, seed, stage_chain, iteration, first_row + n)
        inverse = inverse_rates[min(n, inverse_rates.shape[0] - 1)]
        for k in range(shape.size):
            draw = gamma(stream, shape[k] + sample_counts[n, k]) * inverse[k]
            out[n, k] = max(draw, SMALLEST)


@kernel
def draw_dictionary(
    feature_counts: Floats,
    concentration: float,
    seed: Word,
    stage_chain: Word,
    iteration: Word,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """``out = rng.gamma(concentration + feature_counts)``: Dirichlet draws, up to the sums of their columns."""
    stream = new_stream()
    for f in range(start, stop):
        seek(stream, seed, stage_chain, iteration, f)
        for k in range(out.shape[1]):
            out[f, k] = max(gamma(stream, concentration + feature_counts[f, k]), SMALLEST)
