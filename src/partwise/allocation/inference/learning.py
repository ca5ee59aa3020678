"""Concentrations learned during a fit: drawn by samplers, maximised by variational Bayes."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import digamma, gammaln, polygamma

from partwise.allocation.model import AllocationModel, Concentrations
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import Block
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.sampling.draws import exceeding, tables, waits

EVERY_SWEEPS, EVERY = 3, 10
"""Sweeps between two updates of the concentrations, and the same for iterations and for sweeps of many parts."""
SMALLEST, LARGEST = 1e-6, 1e4
_DICTIONARY, ACTIVATION = "dictionary_concentration", "activation_concentration"
# Limit on the numbers that a fit keeps about how often counts are exceeded.
_MOST_NUMBERS = 2**26
_GROUP = 64


def check_row_lengths(model: AllocationModel, totals: Floats) -> int:
    """The length of the longest row. Refuse rows that are too long for learned concentrations of activations."""
    size = int(totals.max(initial=0))
    if ACTIVATION in model.estimated and size * model.n_components > _MOST_NUMBERS:
        raise InvalidInputError(
            f"activation_concentration='estimate' needs rows of fewer than {_MOST_NUMBERS // model.n_components}"
            f" counts, and one has {size}: give a number, such as 0.1."
        )
    return size


def draw_concentrations(
    key: Key, data: SparseData, model: AllocationModel, engine: Engine, sample_counts: Any, feature_counts: Any
) -> Concentrations:
    """Draw the estimated concentrations given all labels, with both factors integrated out: an exact Gibbs step.

    Parameters
    ----------
    key
        Key of the random numbers.
    data, engine
        The data, and where their rows are.
    model
        The model, with the current concentrations.
    sample_counts, feature_counts
        Counts of labels: samples x parts (may be on workers), and features x parts.
    """
    generator = key.for_stage("concentrations").generator()
    dictionary, activation = model.concentrations
    if ACTIVATION in model.estimated:
        # Allocations of missing cells count, too, and then the counts are in this process.
        totals = np.asarray(sample_counts).sum(axis=1) if data.n_missing else data.row_sums
        size = check_row_lengths(model, totals)
        above: Iterable[NDArray[np.int64]]
        if isinstance(sample_counts, np.ndarray):
            # A few parts at a time: the numbers for all parts may take more memory than the counts.
            cuts = [*range(0, model.n_components, _GROUP), model.n_components]
            above = (exceeding(sample_counts, None, parts) for parts in pairwise(cuts))
        else:
            blocks = [(start, min(start + 2**14, data.shape[0])) for start in range(0, data.shape[0], 2**14)]
            whole, _ = engine.map_rows(_exceeding_rows, data, blocks, size, reads=[sample_counts], recut=True)
            above = (whole[k : k + _GROUP] for k in range(0, model.n_components, _GROUP))
        sizes = exceeding(totals.astype(np.int64)[:, None], size)
        rate = 1.0 + waits(generator, sizes, activation.sum(keepdims=True))
        groups = np.split(activation, range(_GROUP, model.n_components, _GROUP))
        counted = [tables(generator, own, some) for own, some in zip(above, groups, strict=True)]
        activation = generator.standard_gamma(1.0 + np.concatenate(counted)) / rate
    if _DICTIONARY in model.estimated:
        counts = np.asarray(feature_counts)[:, model.n_fixed : model.n_components]
        # One value for all features: tables of all parts belong to one prior, and waits count for each feature.
        opened = tables(generator, exceeding(counts.reshape(-1, 1)), dictionary[:1])
        # -Σ log q for q ~ Beta(first, size) and sizes above 0, by logarithms of gammas, because the first may be tiny.
        first, totals = float(dictionary.sum()), counts.sum(axis=0, dtype=np.float64)
        totals = totals[totals > 0]
        uniform = np.log1p(-generator.random(totals.size)) / first
        logs = np.log(generator.standard_gamma(first + 1.0, totals.size)) + uniform
        waited = float((np.logaddexp(logs, np.log(generator.standard_gamma(totals))) - logs).sum())
        drawn = generator.standard_gamma(1.0 + opened[0]) / (1.0 + dictionary.size * waited)
        dictionary = np.full_like(dictionary, drawn)
    return _bounded(dictionary, activation)


def _bounded(dictionary: Floats, activation: Floats) -> Concentrations:
    return Concentrations(np.clip(dictionary, SMALLEST, LARGEST), np.clip(activation, SMALLEST, LARGEST))


def _exceeding_rows(block: Block, sample_counts: Any, size: int) -> NDArray[np.int64]:
    return exceeding(sample_counts[block.rows], size)


# Algorithms without draws.


def maximised(model: AllocationModel, n_samples: int, mean_logs: Floats, dictionary_mean_log: float) -> Concentrations:
    """Maximise E[log p(h, w | α, β)] + log prior over the estimated concentrations, under variational posteriors.

    Parameters
    ----------
    model
        The model, with the current concentrations.
    n_samples
        Number of samples.
    mean_logs
        Σ over samples of E[log share] of each part.
    dictionary_mean_log
        Σ over features and parts of E[log share].
    """
    dictionary, activation = model.concentrations
    if ACTIVATION in model.estimated:
        activation = _newton(activation, n_samples, mean_logs - 1.0)
    if _DICTIONARY in model.estimated:
        n_features, n_components = dictionary.size, model.n_components

        def loss(log_value: float) -> float:
            value = np.exp(log_value)
            constant = n_components * (gammaln(n_features * value) - n_features * gammaln(value))
            return float(-(constant + value * (dictionary_mean_log - 1.0)))

        found = minimize_scalar(loss, bounds=(np.log(SMALLEST), np.log(LARGEST)), method="bounded")
        dictionary = np.full_like(dictionary, np.exp(found.x))
    return _bounded(dictionary, activation)


def _newton(values: Floats, n_samples: int, sums: Floats) -> Floats:
    """The maximum over β of N (log Γ(β_+) - Σ log Γ(β_k)) + Σ β_k sums_k. The Hessian is a diagonal plus rank 1."""

    def objective(at: Floats) -> float:
        return float(n_samples * (gammaln(at.sum()) - gammaln(at).sum()) + at @ sums)

    reached = objective(values)
    for _ in range(100):
        gradient = n_samples * (digamma(values.sum()) - digamma(values)) + sums
        diagonal = -n_samples * polygamma(1, values)
        common = n_samples * polygamma(1, values.sum())
        shift = (gradient / diagonal).sum() / (1.0 / common + (1.0 / diagonal).sum())
        step, size = (gradient - shift) / diagonal, 1.0
        while True:
            # Never below a third of the current value, so that values stay positive.
            fresh = np.maximum(values - size * step, values / 3.0)
            now = objective(fresh)
            if now >= reached or size < 1e-6:
                break
            size *= 0.5
        done = now - reached <= 1e-9 * abs(reached)
        values, reached = (fresh, now) if now >= reached else (values, reached)
        if done:
            break
    return np.clip(values, SMALLEST, LARGEST)


def fixed_point(model: AllocationModel, sample_counts: Floats, feature_counts: Floats) -> Concentrations:
    """A step of Minka's fixed point with expected counts instead of counts, and a Gamma(1, 1) prior."""
    dictionary, activation = model.concentrations
    if ACTIVATION in model.estimated:
        up = (digamma(sample_counts + activation) - digamma(activation)).sum(axis=0)
        total = activation.sum()
        down = (digamma(sample_counts.sum(axis=1) + total) - digamma(total)).sum()
        activation = activation * up / (down + 1.0)
    if _DICTIONARY in model.estimated:
        one, total = dictionary[0], dictionary.sum()
        up = (digamma(feature_counts + one) - digamma(one)).sum()
        down = dictionary.size * (digamma(feature_counts.sum(axis=0) + total) - digamma(total)).sum()
        dictionary = np.full_like(dictionary, one * up / (down + 1.0))
    return _bounded(dictionary, activation)
