"""The marginal likelihood p(X), everything integrated out: exactly for tiny data, else by sequential Monte Carlo."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.special import gammaln

from partwise.allocation.exact import exact_log_marginal
from partwise.allocation.inference.labels import check_tokens, label_type
from partwise.allocation.kernels.smc import smc_island
from partwise.allocation.model import AllocationModel
from partwise.core.data import CountMatrix
from partwise.core.keys import RandomState, key_from
from partwise.engines.resolve import resolve_engine
from partwise.errors import InvalidInputError
from partwise.likelihood.result import LogLikelihood, log_mean

# Stages are close together at first, where a token changes most: their ends grow as this power.
_SPACING = 2.0


def log_marginal_likelihood(
    X: Any,
    n_components: int,
    *,
    dictionary_concentration: Any = 0.1,
    activation_concentration: Any = 0.1,
    length_shape: float = 1.0,
    length_rate: float | None = None,
    method: Literal["smc", "exact"] = "smc",
    n_particles: int = 16,
    n_islands: int = 16,
    n_stages: int = 40,
    n_moves: int = 1,
    rng: RandomState = None,
    n_jobs: int | None = 1,
) -> LogLikelihood:
    """Log p(X) of the allocation model: the paper's "natural next step", and what the number of parts is chosen by.

    Particles take in the tokens one by one, each from its exact conditional given those before; the product of the
    conditionals' sums estimates p(X) without bias. Between stages particles are resampled and moved by collapsed Gibbs
    sweeps. The logarithm is low by about half the squared standard error.

    Parameters
    ----------
    X
        Counts, samples x features, without missing cells.
    n_components
        Number of parts.
    dictionary_concentration, activation_concentration, length_shape, length_rate
        Priors, as of `AllocationNMF`.
    method
        ``"smc"``, or ``"exact"`` by enumeration, for tiny data.
    n_particles, n_islands
        Particles of an island, and independent islands, from whose spread the standard error comes.
    n_stages
        How often particles are resampled and moved.
    n_moves
        Gibbs sweeps of a move.
    rng
        Seed: int, Generator or None.
    n_jobs
        Threads; the result is the same for any number.

    Returns
    -------
    LogLikelihood
        Of one row, the whole matrix: value, standard error, effective number of islands.

    Examples
    --------
    >>> from partwise.allocation import log_marginal_likelihood
    >>> exact = log_marginal_likelihood([[2, 1], [0, 2]], 2, method="exact")
    >>> found = log_marginal_likelihood([[2, 1], [0, 2]], 2, rng=0)
    >>> bool(abs(found.total - exact.total) < 4 * found.total_std_error)
    True
    """
    if n_islands < 2 or n_particles < 1 or n_stages < 1 or n_moves < 0:
        raise InvalidInputError(
            "n_islands must be at least 2, n_particles and n_stages at least 1 and n_moves at least 0, got"
            f" {n_islands}, {n_particles}, {n_stages} and {n_moves}."
        )
    data = CountMatrix.build(X, caller="log_marginal_likelihood", allow_missing=False)
    rate = length_shape * data.shape[0] / max(data.total, 1.0) if length_rate is None else length_rate
    model = AllocationModel(
        data.shape[1], n_components, dictionary_concentration, activation_concentration, length_shape, rate
    )
    if method == "exact":
        return LogLikelihood(np.array([exact_log_marginal(data, model)]), np.zeros(1), np.full(1, np.inf))
    if method != "smc":
        raise InvalidInputError(f"method must be 'smc' or 'exact', got {method!r}.")
    check_tokens(data, "smc")
    n_tokens = int(data.total)
    key = key_from(rng).for_stage("marginal likelihood")
    # In random order: few tokens of all samples are a small problem of the same kind, on which particles still move.
    order = key.generator().permutation(n_tokens)
    token_rows = np.repeat(np.arange(data.shape[0], dtype=np.int32), data.row_sums.astype(np.int64))[order]
    token_features = np.repeat(data.indices, data.values.astype(np.int64))[order]
    stages = np.unique(np.ceil(n_tokens * (np.arange(1, n_stages + 1) / n_stages) ** _SPACING)).astype(np.int64)
    logs = np.zeros((1, n_islands))
    seed, stage_chain, _ = key.words

    def one(island: int) -> None:
        labels = np.zeros((2, n_particles, n_tokens), label_type(n_components))
        priors = model.dictionary_concentration, model.activation_concentration
        where = seed, stage_chain, np.uint64(island)
        logs[0, island] = smc_island(
            token_rows, token_features, data.shape, *priors, n_particles, stages, n_moves, *where, labels
        )

    if n_tokens:
        resolve_engine(None, n_jobs).for_each(one, range(n_islands))
    values, errors, ess = log_mean(logs)
    a, totals = model.length_shape, data.row_sums
    lengths = a * np.log(rate) - gammaln(a) + gammaln(a + totals) - (a + totals) * np.log1p(rate)
    constant = float(lengths.sum() - gammaln(data.values + 1.0).sum())
    return LogLikelihood(values + constant, errors, ess)
