"""Textbook sequential Monte Carlo over tokens, as the peer of `partwise.likelihood.smc`.

Tokens in random order, each drawn from its exact conditional given those before it, independently in every particle;
systematic resampling when the effective sample size falls below half; one collapsed Gibbs sweep at each resampling. On
the same streams, draws and row reduction as the library's own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.keys import RandomState
from partwise.kernels.categories import categorical
from partwise.kernels.jit import kernel
from partwise.kernels.streams import Stream, new_stream, next_uniform, seek
from partwise.likelihood.kernels.rows import RowModel, gather_row, row_buffers
from partwise.likelihood.kernels.tokens import choose_parents, log_mean_weight
from partwise.likelihood.problem import LikelihoodProblem, LogLikelihood

Floats = NDArray[np.float64]


def plain_smc(
    X: Any, dictionary: Any, shape: Any, rate: Any, *, rng: RandomState = None, n_draws: int = 400
) -> LogLikelihood:
    """Log p(x) of each row from one particle system, so without standard errors."""
    problem = LikelihoodProblem.build(X, dictionary, shape, rate, rng=rng)
    logs = np.empty(problem.n_rows)
    longest = int(problem.data.row_sums.max())
    _plain_rows(problem.model, n_draws, longest, *problem.key.for_stage("plain").words, logs)
    nothing = np.full(problem.n_rows, np.nan)
    return problem.result(logs, nothing, nothing)


@kernel
def _draw(stream: Stream, token: Floats, shapes: Floats, counts: Floats, weights: Floats) -> tuple[int, float]:
    """The component of a token in one particle, and the sum of the weights that it is drawn by."""
    total = 0.0
    for k in range(shapes.size):
        weights[k] = token[k] * (shapes[k] + counts[k])
        total += weights[k]
    k = categorical(stream, weights, total)
    return k, total


@kernel
def _plain_rows(
    model: RowModel,
    n_particles: int,
    longest: int,
    seed: np.uint64,
    stage_chain: np.uint64,
    iteration: np.uint64,
    out: Floats,
) -> None:
    """``out[n] = log T[prod_f (q_f . y)^x_f]`` of each row, estimated by one particle system."""
    n_components = model.shape.size
    row = row_buffers(model.indptr, np.arange(out.size), n_components, model.stop)
    tokens = np.empty(longest, np.int64)
    labels, copied = np.empty((2, n_particles, longest), np.uint16)
    counts, moved = np.empty((2, n_particles, n_components))
    log_weights, weights = np.empty(n_particles), np.empty(n_components)
    parents = np.empty(n_particles, np.int64)
    stream = new_stream()
    for n in range(out.size):
        n_features, n_open, n_tokens, out[n], _ = gather_row(model, n, row)
        shapes = row.shapes[:n_open]
        seek(stream, seed, stage_chain, iteration, n)
        i = 0
        for f in range(n_features):
            for _ in range(row.counts[f]):
                j = int(next_uniform(stream) * (i + 1))
                tokens[i] = tokens[j]
                tokens[j] = f
                i += 1
        counts[:, :] = 0.0
        log_weights[:] = 0.0
        for i in range(n_tokens):
            token = row.weights[tokens[i], :n_open]
            for s in range(n_particles):
                k, total = _draw(stream, token, shapes, counts[s, :n_open], weights[:n_open])
                log_weights[s] += math.log(total)
                counts[s, k] += 1.0
                labels[s, i] = k
            mean, effective = log_mean_weight(log_weights, 0, n_particles)
            if i + 1 == n_tokens:
                out[n] += mean
            elif effective < 0.5 * n_particles:
                out[n] += mean
                choose_parents(stream, log_weights, mean, 0, n_particles, parents)
                log_weights[:] = 0.0
                for s in range(n_particles):
                    copied[s, : i + 1] = labels[parents[s], : i + 1]
                    moved[s] = counts[parents[s]]
                labels, copied = copied, labels
                counts, moved = moved, counts
                for s in range(n_particles):
                    for j in range(i + 1):
                        counts[s, labels[s, j]] -= 1.0
                        token = row.weights[tokens[j], :n_open]
                        k, _ = _draw(stream, token, shapes, counts[s, :n_open], weights[:n_open])
                        counts[s, k] += 1.0
                        labels[s, j] = k
