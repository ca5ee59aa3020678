"""Kinds of documents and dictionaries on which estimates of the likelihood are most likely to be wrong.

Each kind is a function of a seed that gives one document and its model: counts, dictionary, shape, rate.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from partwise import GammaPoissonNMF
from partwise.datasets import load_counts

Case = tuple[Any, Any, Any, float]


def _topics(rng: np.random.Generator, n_features: int, n_components: int, concentration: float) -> Any:
    return rng.dirichlet(np.full(n_features, concentration), size=n_components).T


def _case(rng: np.random.Generator, dictionary: Any, shape: float, n_tokens: int, mixing: float = 0.5) -> Case:
    """A document of proportions drawn with concentration ``mixing``, and a rate that makes its length likely."""
    n_components = dictionary.shape[1]
    rates = dictionary @ rng.dirichlet(np.full(n_components, mixing))
    return rng.multinomial(n_tokens, rates / rates.sum()), dictionary, shape, shape * n_components / n_tokens


def _dependent(shape: float, seed: int, *, n_features: int = 20, n_tokens: int = 150, n_others: int = 0) -> Case:
    """w0 + w1 = w2 + w3: the posterior is a ridge along which the likelihood is constant."""
    rng = np.random.default_rng(seed)
    dictionary = _topics(rng, n_features, 4 + n_others, 0.5)
    both, share = dictionary[:, 0] + dictionary[:, 1], rng.uniform(size=n_features)
    dictionary[:, 2], dictionary[:, 3] = both * share, both * (1.0 - share)
    return _case(rng, dictionary, shape, n_tokens, max(shape, 0.2))


def _near_equal(seed: int) -> Case:
    """Pairs of columns that differ by 10%."""
    rng = np.random.default_rng(seed)
    dictionary = _topics(rng, 30, 5, 0.3)
    for k in (1, 3):
        dictionary[:, k] = dictionary[:, k - 1] * np.exp(rng.normal(0.0, 0.1, 30))
    return _case(rng, dictionary, 0.3, 120)


def _ridge(seed: int) -> Case:
    """Six columns on the line between two, with 2% of noise."""
    rng = np.random.default_rng(seed)
    ends, place = _topics(rng, 40, 2, 0.5), np.linspace(0.0, 1.0, 6)
    dictionary = (ends[:, :1] * place + ends[:, 1:] * (1.0 - place)) * np.exp(rng.normal(0.0, 0.02, (40, 6)))
    return _case(rng, dictionary, 1.0, 300, 1.0)


def _plain(
    shape: float, n_components: int, n_features: int, n_tokens: int, concentration: float, mixing: float, seed: int
) -> Case:
    rng = np.random.default_rng(seed)
    return _case(rng, _topics(rng, n_features, n_components, concentration) + 1e-7, shape, n_tokens, mixing)


def _owned(seed: int) -> Case:
    """Rare words that only one component has, three of them in the document: they settle what is present."""
    rng = np.random.default_rng(seed)
    dictionary = _topics(rng, 36, 6, 0.5)
    dictionary[:6] = np.eye(6) * 1e-3
    counts, *model = _case(rng, dictionary, 0.1, 200)
    counts[:3] += 1
    return counts, *model


def _settled(seed: int) -> Case:
    """One word, which other parts hardly have. Particles mostly agree, and once called that an error of 0."""
    rng = np.random.default_rng(seed)
    dictionary = rng.uniform(0.5, 1.5, (4, 3)) * [1e-3, 3e-3, 1e-2][seed % 3]
    dictionary[:3] += np.eye(3)
    return np.array([rng.integers(10, 40), 0, 0, 0]), dictionary, 0.3, 1.0


def _tiny(n_pairs: int, n_tokens: int, seed: int) -> Case:
    """Pairs of similar columns with tiny, unequal shapes: all tokens of a pair in one column, or in both."""
    rng = np.random.default_rng(seed)
    dictionary = np.zeros((6 * n_pairs, 2 * n_pairs))
    counts = []
    for pair in range(n_pairs):
        columns = rng.gamma(1.0, 1.0, (6, 1)) * rng.uniform(0.75, 1.25, (6, 2))
        dictionary[6 * pair : 6 * pair + 6, 2 * pair : 2 * pair + 2] = columns
        counts.append(rng.multinomial(n_tokens, columns.sum(axis=1) / columns.sum()))
    return np.concatenate(counts), dictionary, np.tile([0.006, 0.06], n_pairs), 0.4


@cache
def _fitted(name: str, n_components: int, shape: float) -> tuple[Any, Any]:
    """Every tenth document of a corpus, and a model that was fitted to the others."""
    table = load_counts(name).matrix.tocsr()
    test = np.arange(table.shape[0]) % 10 == 0
    model = GammaPoissonNMF(n_components, inference="vem", shape=shape, max_iter=60, tol=1e-3, random_state=0)
    with warnings.catch_warnings():  # a fit that has not converged will do
        warnings.simplefilter("ignore")
        return table[test], model.fit(table[~test])


def _of_corpus(name: str, n_components: int, shape: float, seed: int) -> Case:
    documents, model = _fitted(name, n_components, shape)
    known = model.components_.sum(axis=0) > 0  # a word that no training document has is impossible
    return documents[[7 * seed]].toarray()[0] * known, model.components_.T, model.shape_, model.rate_


KINDS: dict[str, Callable[[int], Case]] = {
    "dependent columns, shape 1": partial(_dependent, 1.0),
    "dependent columns, shape 0.3": partial(_dependent, 0.3),
    "dependent columns, shape 0.05": partial(_dependent, 0.05),
    "dependent columns among 20 parts": partial(_dependent, 0.3, n_features=200, n_tokens=400, n_others=16),
    "dependent columns, 100,000 tokens": partial(_dependent, 1.0, n_tokens=100_000),
    "near-equal columns": _near_equal,
    "twice as many parts as features": partial(_plain, 0.2, 12, 6, 120, 0.5, 0.5),
    "six columns on a line": _ridge,
    "shape 0.05": partial(_plain, 0.05, 6, 40, 100, 0.5, 0.3),
    "shape 0.001": partial(_plain, 0.001, 6, 40, 60, 0.5, 0.3),
    "similar columns, tiny unequal shapes": partial(_tiny, 1, 500),
    "two pairs of similar columns, tiny unequal shapes": partial(_tiny, 2, 60),
    "rare words with one owner": _owned,
    "one word, which one part explains": _settled,
    "200,000 tokens": partial(_plain, 0.5, 5, 60, 200_000, 0.5, 1.0),
    "10 million tokens": partial(_plain, 1.0, 10, 100, 10_000_000, 0.5, 1.0),
    "12 tokens, 50 parts": partial(_plain, 0.3, 50, 2000, 12, 0.02, 0.3),
    "300 tokens, 50 parts": partial(_plain, 0.3, 50, 400, 300, 0.1, 0.3),
}
CORPORA: dict[str, Callable[[int], Case]] = {
    "ap, 20 fitted parts": partial(_of_corpus, "ap", 20, 0.3),
    "nips2483, 20 fitted parts": partial(_of_corpus, "nips2483", 20, 0.3),
    "nips_uci7605, 50 fitted parts, shape 0.1": partial(_of_corpus, "nips_uci7605", 50, 0.1),
}
