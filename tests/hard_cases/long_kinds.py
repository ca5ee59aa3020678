"""Long documents whose likelihood is known without any estimator: in closed form, or as an integral over one number.

Each kind is a function of a seed that gives one document and its model, with a function that gives the truth of it. The
truth uses nothing of the library: of gamma activations with equal rates, the total and the shares are independent, the
total integrates in closed form, and columns are chosen so that few numbers matter of the shares.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp, roots_jacobi, roots_legendre, xlogy

Case = tuple[Any, Any, float, float]


class LongKind(NamedTuple):
    """A document of a seed (and of so many tokens, if asked), and the log-likelihood of such a one."""

    case: Callable[..., Case]
    truth: Callable[..., float]


def _document(rng: np.random.Generator, dictionary: Any, shape: float, shares: Any, n_tokens: int) -> Case:
    rates = dictionary @ shares
    return rng.multinomial(n_tokens, rates / rates.sum()), dictionary, shape, shape * shares.size / n_tokens


def _log_of_total(counts: Any, profiles: Any, shape: float, rate: float) -> Any:
    """log p(x) for rates T * profile, T ~ Gamma(shape, rate), for each column of profiles: a negative multinomial."""
    total = counts.sum()
    fixed = shape * np.log(rate) + gammaln(shape + total) - gammaln(shape) - gammaln(counts + 1.0).sum()
    return fixed + xlogy(counts[:, None], profiles).sum(axis=0) - (shape + total) * np.log(rate + profiles.sum(axis=0))


# Pairs of equal columns: the sum of the activations of a pair is a gamma of the sum of their shapes.


def _pairs(shape: float, seed: int, n_tokens: int = 20_000) -> Case:
    """Three pairs of equal columns; no two pairs share a feature."""
    rng = np.random.default_rng(seed)
    dictionary = np.zeros((18, 6))
    for pair in range(3):
        dictionary[6 * pair : 6 * pair + 6, 2 * pair : 2 * pair + 2] = rng.dirichlet(np.ones(6))[:, None]
    return _document(rng, dictionary, shape, rng.dirichlet(np.ones(6)), n_tokens)


def pairs_truth(counts: Any, dictionary: Any, shape: float, rate: float) -> float:
    """The product over pairs, in closed form."""
    parts = [(slice(6 * pair, 6 * pair + 6), 2 * pair) for pair in range(3)]
    return sum(float(_log_of_total(counts[own], dictionary[own, k : k + 1], 2 * shape, rate)[0]) for own, k in parts)


# Two columns that hardly differ: the share of the first is all that matters, and it is a beta variable.


def _pair(shape: float, seed: int, n_tokens: int = 100_000) -> Case:
    """Two columns that differ by 10%."""
    rng = np.random.default_rng(seed)
    first = rng.dirichlet(np.full(30, 0.5)) + 1e-6
    dictionary = np.stack((first, first * np.exp(rng.normal(0.0, 0.1, 30))), axis=1)
    return _document(rng, dictionary, shape, rng.dirichlet(np.ones(2)), n_tokens)


def pair_truth(counts: Any, dictionary: Any, shape: float, rate: float, n_nodes: int = 600) -> float:
    """By Gauss-Jacobi nodes for the share, whose weight function is its prior."""
    nodes, weights = roots_jacobi(n_nodes, shape - 1.0, shape - 1.0)
    share = 0.5 * (1.0 + nodes)
    profiles = dictionary[:, :1] * share + dictionary[:, 1:] * (1.0 - share)
    return float(logsumexp(_log_of_total(counts, profiles, 2 * shape, rate), b=weights / weights.sum()))


# A third column half-way between two: q = p0 + p2 / 2 is all that matters of the shares p.


def _between(shape: float, seed: int, n_tokens: int = 20_000) -> Case:
    """w2 = (w0 + w1) / 2: the likelihood is constant along a line of shares."""
    rng = np.random.default_rng(seed)
    dictionary = rng.dirichlet(np.full(20, 0.5), size=2).T + 1e-7
    dictionary = np.column_stack((dictionary, dictionary.mean(axis=1)))
    shares = np.array([[0.1, 0.3, 0.6], [0.55, 0.1, 0.35]])[seed % 2]
    return _document(rng, dictionary, shape, shares, n_tokens)


def between_truth(counts: Any, dictionary: Any, shape: float, rate: float, n_panels: int = 400) -> float:
    """By Gauss-Legendre nodes for q in panels that get narrow at 0, 1/2 and 1, and Gauss-Jacobi nodes for p2.

    The density of q has a pole at 1/2 for small shapes: not for documents whose q may be there.
    """
    edges = np.unique(np.append(0.5 * (1.0 - np.cos(np.linspace(0.0, np.pi, n_panels + 1))), 0.5))
    edges = np.unique(np.concatenate((0.5 * edges, 0.5 + 0.5 * edges)))
    nodes, weights = roots_legendre(20)
    half = 0.5 * np.diff(edges)[:, None]
    q = (edges[:-1, None] + half * (1.0 + nodes)).ravel()
    inner, inner_weights = roots_jacobi(40, shape - 1.0, shape - 1.0)
    # p2 = 2 low s, s from 0 to 1, low = min(q, 1 - q): p_low = low (1 - s), and the third share is the rest.
    low, s = np.minimum(q, 1.0 - q)[:, None], 0.5 * (1.0 + inner)
    rest = 1.0 - low - low * s
    density = (rest ** (shape - 1.0)) @ inner_weights * 2.0 ** (1.0 - 2.0 * shape)
    log_density = np.log(density) + shape * np.log(2.0) + (2.0 * shape - 1.0) * np.log(low[:, 0])
    log_density += gammaln(3.0 * shape) - 3.0 * gammaln(shape)
    profiles = dictionary[:, :1] * q + dictionary[:, 1:2] * (1.0 - q)
    logs = _log_of_total(counts, profiles, 3 * shape, rate) + log_density
    return float(logsumexp(logs, b=(half * weights).ravel()))


BETWEEN = LongKind(partial(_between, 0.3), between_truth)
LONG_KINDS: dict[str, LongKind] = {
    "pairs of equal columns, 20,000 tokens": LongKind(partial(_pairs, 0.5), pairs_truth),
    "pairs of equal columns, 100,000 tokens": LongKind(partial(_pairs, 0.5, n_tokens=100_000), pairs_truth),
    "two near-equal columns, 100,000 tokens": LongKind(partial(_pair, 0.3), pair_truth),
    "column between two others, 20,000 tokens": BETWEEN,
    "column between two others, 100,000 tokens": LongKind(partial(_between, 0.3, n_tokens=100_000), between_truth),
    "column between two others, shape 1, 100,000 tokens": LongKind(
        partial(_between, 1.0, n_tokens=100_000), between_truth
    ),
}
