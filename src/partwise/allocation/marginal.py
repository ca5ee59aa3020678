"""The marginal likelihood p(X), everything integrated out: exactly for tiny data, else by annealing or over tokens."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from scipy.special import gammaln, ndtr, stdtrit

from partwise.allocation.exact import exact_log_marginal
from partwise.allocation.inference.islands import annealed_island, token_island
from partwise.allocation.inference.labels import check_tokens
from partwise.allocation.model import AllocationModel
from partwise.core.data import CountMatrix
from partwise.core.keys import Key, RandomState, key_from
from partwise.engines.resolve import resolve_engine
from partwise.errors import InaccurateWarning, InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.likelihood.averages import log_mean
from partwise.likelihood.problem import LogLikelihood

_INACCURATE = 1.0


def log_marginal_likelihood(
    X: Any,
    n_components: int,
    *,
    dictionary_concentration: Any = 0.1,
    activation_concentration: Any = 0.1,
    length_shape: float = 1.0,
    length_rate: float | None = None,
    method: Literal["annealed", "smc", "exact"] = "annealed",
    n_particles: int = 8,
    n_islands: int = 16,
    n_stages: int = 100,
    n_moves: int = 1,
    n_pilot: int = 500,
    rng: RandomState = None,
    n_jobs: int | None = 1,
) -> LogLikelihood:
    """Log p(X) of the allocation model: the paper's "natural next step", and what the number of parts is chosen by.

    Both methods of sampling estimate p(X) without bias; the logarithm of an estimate is low, by about half the squared
    standard error. Islands are independent runs, and the error comes from their spread. The logarithm of an island is
    close to normal. The error reported is the root mean square one, bias included, of the mean of this many
    log-normal numbers.

    Parameters
    ----------
    X
        Counts, samples x features, without missing cells.
    n_components
        Number of parts.
    dictionary_concentration, activation_concentration, length_shape, length_rate
        Priors, as of `AllocationNMF`.
    method
        ``"annealed"``: all labels at once, from independent ones around what a Gibbs run of each island's own has found
        to the model, by priors that let go step by step. ``"smc"``: tokens come in one by one in random order, each
        drawn from its exact conditional given those before; for data of up to some hundred tokens. ``"exact"``: by
        enumeration, for tiny data.
    n_particles, n_islands
        Particles of an island, and independent islands.
    n_stages
        How often particles are weighed, resampled and moved.
    n_moves
        Gibbs sweeps of a move.
    n_pilot
        Sweeps of the Gibbs run of ``"annealed"``.
    rng
        Seed: int, Generator or None.
    n_jobs
        Threads; the result is the same for any number.

    Returns
    -------
    LogLikelihood
        Of one row, the whole matrix: value, standard error, effective number of islands.

    Warns
    -----
    InaccurateWarning
        Where the error is above 1 nat: islands disagree, and more effort may well change the value.

    Examples
    --------
    >>> from partwise.allocation import log_marginal_likelihood
    >>> exact = log_marginal_likelihood([[2, 1], [0, 2]], 2, method="exact")
    >>> found = log_marginal_likelihood([[2, 1], [0, 2]], 2, rng=0)
    >>> bool(abs(found.total - exact.total) < 4 * found.total_std_error)
    True
    """
    efforts = {"n_islands": n_islands, "n_particles": n_particles, "n_stages": n_stages, "n_pilot": n_pilot}
    for name, effort in {"n_components": n_components, **efforts}.items():
        least = 4 if name == "n_islands" else 1
        if effort < least:
            raise InvalidInputError(f"{name} must be at least {least}, got {effort}.")
    if n_moves < 0:
        raise InvalidInputError(f"n_moves must be at least 0, got {n_moves}.")
    if method not in ("annealed", "smc", "exact"):
        raise InvalidInputError(f"method must be 'annealed', 'smc' or 'exact', got {method!r}.")
    data = CountMatrix.build(X, caller="log_marginal_likelihood", allow_missing=False)
    rate = length_shape * data.shape[0] / max(data.total, 1.0) if length_rate is None else length_rate
    model = AllocationModel(
        data.shape[1], n_components, dictionary_concentration, activation_concentration, length_shape, rate
    )
    if method == "exact":
        return LogLikelihood(np.array([exact_log_marginal(data, model)]), np.zeros(1), np.full(1, np.inf))
    check_tokens(data, f"method={method!r}", "thin the counts")
    key = key_from(rng).for_stage("marginal likelihood")
    logs = np.zeros((1, n_islands))

    def one(island: int) -> None:
        if method == "annealed":
            effort = n_particles, n_stages, n_moves, n_pilot
            logs[0, island] = annealed_island(key.for_chain(island), data, model, *effort)
        else:
            logs[0, island] = token_island(key, island, data, model, n_particles, n_stages, n_moves)

    if data.total:
        resolve_engine(None, n_jobs).for_each(one, range(n_islands))
    values, _, ess = log_mean(logs)
    error = log_normal_error(logs[0])
    if error > _INACCURATE:
        warnings.warn(
            f"log_marginal_likelihood with {n_components} parts has a standard error of {error:.2g} nats, as its"
            " islands disagree: raise n_pilot, n_stages or n_particles until the value settles.",
            InaccurateWarning,
            stacklevel=2,
        )
    return LogLikelihood(values + model.log_known(data), np.array([error]), ess)


def log_normal_error(logs: Floats, *, n_sets: int = 1000) -> float:
    """Root mean square error of log(mean(exp(logs))) if the logs are normal, by simulation with a fixed seed.

    Few islands know their spread badly: errors are widened as Student's t is against the normal distribution. Islands
    that got stuck far below the others hardly change the mean, so they count as no farther from the median than the
    highest one. The error is at least the one that the spread of the likelihoods themselves gives.
    """
    n_islands, middle = logs.size, np.median(logs)
    spread = float(np.maximum(logs, 2.0 * middle - logs.max()).std(ddof=1))
    drawn = spread * Key(0).for_stage("log-normal error").generator().standard_normal((n_sets, n_islands))
    reached = np.logaddexp.reduce(drawn, axis=1) - np.log(n_islands)
    error = np.sqrt(np.mean(np.square(reached - 0.5 * spread**2)))
    return float(max(error * stdtrit(n_islands - 1, ndtr(2.0)) / 2.0, log_mean(logs[None])[1][0]))


def log_length(totals: Floats, shape: float, rate: float) -> Floats:
    """Log probability of a sample's total: negative binomial, a Poisson total whose mean is Gamma(shape, rate)."""
    whole = gammaln(shape + totals) - gammaln(shape) - gammaln(totals + 1.0)
    return np.asarray(whole - shape * np.log1p(1.0 / rate) - totals * np.log1p(rate))
