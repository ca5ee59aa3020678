"""Small models and rows on which estimators of the likelihood are judged, and how they are judged."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.likelihood import exact

# Six features, three components, zeros among them; one feature has a single owner.
DICTIONARY = np.array(
    [[0.5, 0.1, 0.0], [0.3, 0.2, 0.1], [0.0, 0.7, 0.2], [0.2, 0.0, 0.4], [0.1, 0.3, 0.3], [0.0, 0.0, 0.6]]
)
SHAPE = np.array([0.4, 1.3, 0.8])
RATE = np.array([0.5, 1.0, 2.0])
MODEL = (DICTIONARY, SHAPE, RATE)

SHORT = np.array([2, 1, 0, 1, 0, 1])
LONG = np.array([13, 8, 11, 6, 9, 2])


def z_of_mean_ratio(values: Any, truth: float) -> float:
    """How many standard errors the mean of p-hat / p is away from 1."""
    ratios = np.exp(np.asarray(values) - truth)
    return float((ratios.mean() - 1.0) / (ratios.std(ddof=1) / np.sqrt(ratios.size)))


def repeated(estimator: Any, counts: Any, n_runs: int, model: Any = MODEL, **settings: Any) -> Any:
    """Independent estimates for one row: rows have streams of their own, so a table of equal rows will do."""
    return estimator(np.tile(counts, (n_runs, 1)), *model, **settings)


def truth(counts: Any, model: Any = MODEL) -> float:
    """The exact log-likelihood of one row."""
    return float(exact([counts], *model).values[0])


def topic_document(n_components: int, n_tokens: int, seed: int, n_features: int = 400) -> tuple[Any, Any, float, float]:
    """A document drawn from sparse topics: counts, dictionary, shape, rate."""
    rng = np.random.default_rng(seed)
    dictionary = rng.dirichlet(np.full(n_features, 0.1), size=n_components).T + 1e-7
    shares = dictionary @ rng.dirichlet(np.full(n_components, 0.3))
    counts = rng.multinomial(n_tokens, shares / shares.sum())
    return counts, dictionary, 0.3, 0.3 * n_components / n_tokens
