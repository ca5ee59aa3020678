"""Annealed importance sampling of mixing proportions, from their prior to their posterior."""

from __future__ import annotations

import math

import numpy as np

from partwise.kernels.continuous import log_dirichlet
from partwise.kernels.gamma_functions import log_gamma_difference
from partwise.kernels.jit import kernel
from partwise.kernels.streams import new_stream, seek
from partwise.likelihood.kernels.rows import Floats, RowModel, gather_row, row_buffers
from partwise.likelihood.kernels.sampling import allocate, log_product

# What a zero of the dictionary is until the last step, relative to the largest weight of its feature.
_ALMOST_ZERO = 1e-12


@kernel
def annealed_draws(
    model: RowModel,
    n_temperatures: int,
    seed: np.uint64,
    stage_chain: np.uint64,
    iteration: np.uint64,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """``out[n, s] = log T[prod_f (q_f . y)^x_f]`` of each row, estimated by one annealed run (Neal 2001) for each s.

    T is Γ(A + L) / Γ(A) times the expectation of the same product over mixing proportions y ~ Dirichlet(shape) (MATH
    1.1). Inverse temperature b has q_f^b in place of q_f, of which the largest is 1, so the path begins at the prior;
    moves are Gibbs draws of the allocations, then of the proportions.
    """
    n_components = model.shape.size
    n_draws = out.shape[1]
    row = row_buffers(model.indptr, np.arange(start, stop), n_components)
    tempered = np.empty((row.counts.size, n_components))
    points = np.empty((n_draws, n_components))
    logs, weights, totals = np.empty(n_components), np.empty(n_components), np.empty(n_components)
    drawn = np.empty(n_components, np.int64)
    stream = new_stream()
    for n in range(start, stop):
        n_features, n_open, n_tokens, log_factor = gather_row(model, n, row)
        out[n - start] = log_factor
        if n_tokens == 0:
            continue
        out[n - start] += log_gamma_difference(row.shapes[:n_open].sum(), n_tokens)
        seek(stream, seed, stage_chain, iteration, n)
        tempered[:n_features, :n_open] = 1.0
        for s in range(n_draws):
            log_dirichlet(stream, row.shapes[:n_open], logs[:n_open])
            for k in range(n_open):
                points[s, k] = math.exp(logs[k])
        for t in range(1, n_temperatures + 1):
            power = t / n_temperatures
            for s in range(n_draws):
                out[n - start, s] -= log_product(row.counts, 0, n_features, tempered, points[s, :n_open])
            for f in range(n_features):
                for k in range(n_open):
                    weight = row.weights[f, k]
                    tempered[f, k] = weight if t == n_temperatures else max(weight, _ALMOST_ZERO) ** power
            for s in range(n_draws):
                out[n - start, s] += log_product(row.counts, 0, n_features, tempered, points[s, :n_open])
                if t == n_temperatures:
                    continue
                allocate(
                    stream,
                    row.counts,
                    0,
                    n_features,
                    tempered,
                    points[s, :n_open],
                    weights[:n_open],
                    drawn[:n_open],
                    totals[:n_open],
                )
                for k in range(n_open):
                    totals[k] += row.shapes[k]
                log_dirichlet(stream, totals[:n_open], logs[:n_open])
                for k in range(n_open):
                    points[s, k] = math.exp(logs[k])
