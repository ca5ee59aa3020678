"""The marginal likelihood p(X), with everything integrated out: exact for tiny data, else by annealing or over tokens.

Particles estimate p(X): annealed from independent labels around a short Gibbs run, or token by token.
"""

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr, stdtrit

from partwise.allocation.exact import exact_log_marginal
from partwise.allocation.inference.labels import TokenLabels, check_tokens
from partwise.allocation.kernels.particles import bridge_island, log_permanent, smc_island
from partwise.allocation.model import AllocationModel
from partwise.core.data import CountMatrix, SparseData
from partwise.core.keys import Key, RandomState, key_from
from partwise.engines.local import resolve_engine
from partwise.errors import InaccurateWarning, InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.likelihood.averages import log_mean
from partwise.likelihood.problem import LogLikelihood
from partwise.sampling.draws import label_type

# Stages are closer together towards the end, where the priors are released: 1 / (1 + strength) grows as this power.
_SPACING = 0.7
# Stages over tokens are closer together at first, where a token changes most: their ends grow as this power.
_TOKEN_SPACING = 2.0
_MOST_ALIKE = 14
_NEGLIGIBLE = -36.0


def annealed_island(
    key: Key, data: SparseData, model: AllocationModel, n_particles: int, n_stages: int, n_moves: int, n_pilot: int
) -> float:
    """Log of an unbiased estimate of the probability of the tokens in order, given the lengths.

    Labels start from independent draws around the result of a Gibbs run (`bridge_island`). All orders of the parts are
    one solution, and a run finds one of them. The estimate is of Σ_z g(z) Σ_σ p(X, σz), where g(z) = q(z) / Σ_σ q(σz)
    is the share of this order among all orders under the distribution q of independent labels. That equals p(X) for any
    q.
    """
    sample_anchor, feature_anchor = anchors(key.for_stage("pilot"), data, model, n_pilot)
    tokens, (particles, labels) = tokens_of(data), no_particles(data, model.n_components, n_particles)
    sample_counts, feature_counts, _ = particles
    log_weights = np.empty(n_particles)
    strengths = (np.arange(1, n_stages + 1) / n_stages) ** -_SPACING - 1.0
    priors = model.activation_concentration, model.dictionary_concentration
    anchored = priors, (sample_anchor, feature_anchor), strengths
    words = key.for_stage("bridge").words
    reached, last = bridge_island(tokens, *anchored, n_moves, words, particles, labels, log_weights)
    log_shares = np.log(sample_anchor / sample_anchor.sum(axis=1, keepdims=True))
    log_parts = np.log(feature_anchor / feature_anchor.sum(axis=0))
    for s in range(n_particles):
        by_sample = sample_counts[last, s].astype(np.float64)
        exchanged = by_sample.T @ log_shares + feature_counts[last, s].astype(np.float64).T @ log_parts
        log_weights[s] += _log_orders(model, by_sample) - log_all_orders(exchanged)
    return float(reached + np.logaddexp.reduce(log_weights) - np.log(n_particles))


def token_island(
    key: Key, island: int, data: SparseData, model: AllocationModel, n_particles: int, n_stages: int, n_moves: int
) -> float:
    """Log of an unbiased estimate of the probability of the tokens in order, one token after the other."""
    n_tokens, n_components = int(data.total), model.n_components
    # In random order: a few tokens of all samples are a small problem of the same kind, on which particles still move.
    order = key.generator().permutation(n_tokens)
    rows, features = tokens_of(data)
    tokens = rows[order], features[order]
    stages = np.unique(np.ceil(n_tokens * (np.arange(1, n_stages + 1) / n_stages) ** _TOKEN_SPACING)).astype(np.int64)
    sample_prior = model.activation_posterior(np.zeros((data.shape[0], n_components)))
    feature_prior = model.dictionary_posterior(np.zeros((data.shape[1], n_components)))
    seed, stage_chain, _ = key.words
    words, particles = (seed, stage_chain, np.uint64(island)), no_particles(data, n_components, n_particles)
    return smc_island(tokens, sample_prior, feature_prior, stages, n_moves, words, *particles)


def tokens_of(data: SparseData) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Row and feature of each token."""
    rows = np.repeat(np.arange(data.shape[0], dtype=np.int32), data.row_sums.astype(np.int64))
    return rows, np.repeat(data.indices, data.values.astype(np.int64))


def no_particles(data: SparseData, n_components: int, n_particles: int) -> tuple[Any, Any]:
    """Two sets of particles without labels: counts of samples, features and parts, and labels."""
    n_samples, n_features = data.shape
    sizes = (n_samples, n_components), (n_features, n_components), (n_components,)
    counts = tuple(np.zeros((2, n_particles, *size), np.int32) for size in sizes)
    return counts, np.zeros((2, n_particles, int(data.total)), label_type(n_components))


def anchors(key: Key, data: SparseData, model: AllocationModel, n_sweeps: int) -> tuple[Floats, Floats]:
    """Posterior means of Dirichlet parameters, of samples and of features, over the second half of some sweeps."""
    n_components = model.n_components
    chain = TokenLabels.none_yet(data, n_components, 1)
    by_sample, by_feature = np.zeros((data.shape[0], n_components)), np.zeros((data.shape[1], n_components))
    n_kept = -(-n_sweeps // 2)
    for iteration in range(n_sweeps):
        chain.sweep(key.at(iteration), data, model, 0)
        if iteration >= n_sweeps - n_kept:
            by_sample += chain.sample_counts[0]
            by_feature += chain.feature_counts[0][:, :n_components]
    return model.activation_posterior(by_sample / n_kept), model.dictionary_posterior(by_feature / n_kept)


def _log_orders(model: AllocationModel, sample_counts: Floats) -> float:
    """Log Σ_σ p(X, σz) / p(X, z): only the concentrations of activations distinguish orders."""
    beta = model.activation_concentration
    if np.ptp(beta) == 0:
        return float(gammaln(beta.size + 1.0))
    return log_all_orders(np.stack([gammaln(b + sample_counts).sum(axis=0) for b in beta], axis=1))


def log_all_orders(logs: Floats) -> float:
    """``log perm(exp(logs)) - trace(logs)``: the sum over all orders, relative to the current one.

    Parts that could swap only at a cost of e^-36, including all possible gains of others, stay in place.
    """
    relative = logs - np.diag(logs)[:, None]
    np.fill_diagonal(relative, -np.inf)
    leaving = np.logaddexp.reduce(relative, axis=1)
    most = np.logaddexp(0.0, leaving)
    alike = np.flatnonzero(leaving + most.sum() - most >= _NEGLIGIBLE)
    if alike.size > _MOST_ALIKE:
        raise InvalidInputError(
            f"method='annealed' cannot tell {alike.size} parts apart, and takes at most {_MOST_ALIKE} that are so"
            " alike: use fewer parts, or method='smc'."
        )
    np.fill_diagonal(relative, 0.0)
    return log_permanent(np.ascontiguousarray(relative[np.ix_(alike, alike)]))


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
    """Log p(X) of the allocation model: the paper's "natural next step", and a criterion for the number of parts.

    Both sampling methods estimate p(X) without bias. The logarithm of an estimate is too low, by about half the squared
    standard error. Islands are independent runs, and the standard error comes from their spread. The logarithm of an
    island is close to normal. The reported error is the root mean square error, including bias, of the mean of this
    many log-normal numbers.

    Parameters
    ----------
    X
        Counts, samples x features, without missing cells.
    n_components
        Number of parts.
    dictionary_concentration, activation_concentration, length_shape, length_rate
        Priors, as for `AllocationNMF`.
    method
        ``"annealed"``: all labels at once. Each island starts from independent labels around its own Gibbs run and
        moves to the model in steps that release the priors. ``"smc"``: tokens come in one by one in random order, each
        drawn from its exact conditional given those before; for data of up to a few hundred tokens. ``"exact"``: by
        enumeration, for tiny data.
    n_particles, n_islands
        Number of particles per island, and of independent islands.
    n_stages
        How often particles are weighted, resampled and moved.
    n_moves
        Number of Gibbs sweeps per move.
    n_pilot
        Number of sweeps of the Gibbs run of ``"annealed"``.
    rng
        Seed: int, Generator or None.
    n_jobs
        Number of threads; it does not change the result.

    Returns
    -------
    LogLikelihood
        For one row, the whole matrix: value, standard error, effective number of islands.

    Warns
    -----
    InaccurateWarning
        If the error is above 1 nat: islands disagree, and more effort may change the value.

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

    A few islands do not determine their spread well, so errors are widened as Student's t is compared with the normal
    distribution. Islands stuck far below the others hardly change the mean, so they count as no farther from the median
    than the highest one. The error is at least the one given by the spread of the likelihoods themselves.
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
