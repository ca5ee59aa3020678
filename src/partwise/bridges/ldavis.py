"""Build the arguments of `pyLDAvis.prepare` from a fitted model and its data."""

from typing import Any

import numpy as np

from partwise.errors import InvalidInputError


def to_pyldavis(model: Any, X: Any) -> dict[str, Any]:
    """The arguments of ``pyLDAvis.prepare``: parts and samples as distributions, lengths, words and their counts.

    Samples without counts, words that never occur and parts of zeros are left out, because pyLDAvis cannot handle them.

    Parameters
    ----------
    model
        A fitted model of counts.
    X
        The counts, samples x features.

    Returns
    -------
    dict
        ``topic_term_dists`` (parts x words), ``doc_topic_dists`` (samples x parts), ``doc_lengths``, ``vocab``,
        ``term_frequency``: call ``pyLDAvis.prepare(**to_pyldavis(model, X))``.

    Examples
    --------
    >>> from partwise import PoissonNMF
    >>> from partwise.bridges import to_pyldavis
    >>> from partwise.datasets import simulate_poisson
    >>> table = simulate_poisson(20, 8, 2, random_state=0).table
    >>> prepared = to_pyldavis(PoissonNMF(2, random_state=0).fit(table), table)
    >>> prepared["topic_term_dists"].shape, prepared["doc_topic_dists"].sum(axis=1).round(6).tolist()[:2]
    ((2, 6), [1.0, 1.0])
    """
    data = model.checked_data(X, caller="to_pyldavis")
    if model.declares.signed:
        raise InvalidInputError(f"{type(model).__name__} has negative parts, which are not distributions of words.")
    activations = np.asarray(model.transform(X), dtype=np.float64)
    sizes = model.components_.sum(axis=1)
    # expected counts of each part, whatever the scale of the parts
    shares = activations * sizes
    parts = np.flatnonzero((sizes > 0) & (shares.sum(axis=0) > 0))
    filled = np.flatnonzero((data.row_sums > 0) & (shares[:, parts].sum(axis=1) > 0))
    words = np.flatnonzero(data.column_sums > 0)
    names = data.column_labels if model.known_features is None else model.known_features
    kept = shares[np.ix_(filled, parts)]
    terms = model.components_[np.ix_(parts, words)]
    return {
        "topic_term_dists": terms / terms.sum(axis=1, keepdims=True),
        "doc_topic_dists": kept / kept.sum(axis=1, keepdims=True),
        "doc_lengths": data.row_sums[filled],
        "vocab": [str(f) if names is None else str(names[f]) for f in words],
        "term_frequency": data.column_sums[words],
    }
