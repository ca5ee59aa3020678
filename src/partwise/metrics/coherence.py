"""Descriptions of parts: whether their features occur together, how much parts differ, and which are similar.

Also, which features characterise a part: the likeliest, the most distinctive, or a balance of the two.
"""

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from partwise.core.coerce import as_table
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats

FEATURES = 10
"""Number of features per part that coherence uses."""

_FEATURES_OF_DIVERSITY = 25


def coherence(model: Any, X: Any, *, n: int = FEATURES) -> Floats:
    """NPMI coherence: how often the likeliest features of each part occur in the same samples.

    The mean over pairs of log(p_ij / (p_i p_j)) / -log p_ij, where p is the share of samples of X with a feature, or
    with both. It is 1 for features that always occur together, 0 for independent ones, -1 for features that never do.
    Words that do not occur in X are left out. Use it to describe parts, and held-out scores to choose a model.

    Parameters
    ----------
    model
        Fitted model.
    X
        Samples in which to look for the features: the training data, or others, matched by column name.
    n
        Number of likeliest features per part.

    Returns
    -------
    ndarray
        One number per part; NaN if fewer than two of its features are in X.

    Examples
    --------
    >>> from partwise import PoissonNMF
    >>> from partwise.metrics import coherence
    >>> model = PoissonNMF.from_components([[2, 1, 0, 0], [0, 0, 1, 1]])
    >>> coherence(model, [[1, 1, 0, 0], [1, 1, 0, 1], [0, 0, 1, 0]]).round(6).tolist()
    [1.0, -1.0]
    """
    table = as_table(X)
    lists = _likeliest(model, n)
    if table.column_labels is not None and model.known_features is not None:
        known = {str(name): at for at, name in enumerate(table.column_labels)}
        places = [known.get(str(name)) for name in model.known_features]
        lists = [[at for f in part if (at := places[f]) is not None] for part in lists]
    elif table.shape[1] != model.n_features_in_:
        raise InvalidInputError(
            f"X has {table.shape[1]} features and the model {model.n_features_in_}: name both, to match them."
        )
    used = np.array(sorted({f for part in lists for f in part}), dtype=np.int64)
    place = {int(f): at for at, f in enumerate(used)}
    filled = sp.csc_array(table.matrix)[:, used].astype(np.float64)
    filled.data = (np.nan_to_num(filled.data) > 0).astype(np.float64)
    together = np.asarray((filled.T @ filled).toarray()) / table.shape[0]
    found = np.full(len(lists), np.nan)
    for k, part in enumerate(lists):
        rows = [place[f] for f in part if together[place[f], place[f]] > 0]
        if len(rows) > 1:
            joint, single = together[np.ix_(rows, rows)], together[rows, rows]
            with np.errstate(divide="ignore", invalid="ignore"):
                npmi = np.log(joint / np.outer(single, single)) / -np.log(joint)
            # Features that all samples have always occur together, which says nothing.
            npmi = np.where(joint == 0, -1.0, np.where(joint >= 1, 0.0, npmi))
            found[k] = npmi[np.triu_indices(len(rows), 1)].mean()
    return found


def _likeliest(model: Any, n: int) -> list[list[int]]:
    """Positions of the likeliest features of each part, the likeliest first; features that it lacks are left out."""
    if n < 1:
        raise InvalidInputError(f"n must be at least 1, got {n}.")
    importance = np.abs(model.feature_importance())
    order = np.argsort(-importance, axis=1, kind="stable")[:, :n]
    return [[int(f) for f in row if importance[k, f] > 0] for k, row in enumerate(order)]


def diversity(model: Any, *, n: int = _FEATURES_OF_DIVERSITY) -> float:
    """Share of distinct features among the likeliest features of all parts: 1 if no two parts share one.

    Parameters
    ----------
    model
        Fitted model.
    n
        Number of features per part.

    Examples
    --------
    >>> from partwise import PoissonNMF
    >>> from partwise.metrics import diversity
    >>> diversity(PoissonNMF.from_components([[3, 2, 0], [0, 2, 3]]), n=2)
    0.75
    """
    listed = [f for part in _likeliest(model, n) for f in part]
    return len(set(listed)) / len(listed) if listed else 1.0


def part_similarity(model: Any) -> Floats:
    """Similarity of parts (parts x parts): 1 minus the Jensen-Shannon divergence of their features in bits.

    It is 1 for equal parts and 0 for parts without a common feature.

    Parameters
    ----------
    model
        Fitted model.

    Examples
    --------
    >>> from partwise import PoissonNMF
    >>> from partwise.metrics import part_similarity
    >>> part_similarity(PoissonNMF.from_components([[1, 1, 0], [0, 1, 1], [1, 1, 0]])).round(6).tolist()
    [[1.0, 0.5, 1.0], [0.5, 1.0, 0.5], [1.0, 0.5, 1.0]]
    """
    shares = np.abs(model.feature_importance())
    shares = np.divide(shares, shares.sum(axis=1, keepdims=True), out=np.zeros_like(shares), where=shares > 0)
    entropy = _entropy(shares)
    found = np.eye(len(shares))
    for k in range(len(shares)):
        middle = _entropy((shares[k] + shares[k + 1 :]) / 2.0)
        found[k, k + 1 :] = 1.0 - np.clip(middle - (entropy[k] + entropy[k + 1 :]) / 2.0, 0.0, 1.0)
        found[k + 1 :, k] = found[k, k + 1 :]
    return found


def _entropy(shares: Floats) -> Floats:
    """Entropy of each row in bits."""
    return np.asarray(-(shares * np.log2(shares, out=np.zeros_like(shares), where=shares > 0)).sum(axis=1))


def part_measures(model: Any, X: Any) -> dict[str, float]:
    """Coherence (mean over active parts) and diversity of a model, by name. Tables show them; they decide nothing.

    Parameters
    ----------
    model
        Fitted model.
    X
        Samples in which to look for the features.

    Examples
    --------
    >>> from partwise import PoissonNMF
    >>> from partwise.metrics import part_measures
    >>> model = PoissonNMF.from_components([[2, 1, 0, 0], [0, 0, 1, 1]])
    >>> measures = part_measures(model, [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]])
    >>> {name: round(value, 6) for name, value in measures.items()}
    {'coherence': 1.0, 'diversity': 1.0}
    """
    values = coherence(model, X)
    active = [k for k in model.active_components_ if np.isfinite(values[k])]
    return {"coherence": float(np.mean(values[active])) if active else float("nan"), "diversity": diversity(model)}


By = Literal["relevance", "probability", "lift"]

BALANCE = 0.3
"""λ of the relevance λ log p(f | k) + (1 - λ) log(p(f | k) / p(f)) of Sievert & Shirley (2014).

They chose 0.6 for words without stop words. In texts with stop words, and in cells, parts then still list what all
parts have in common ("the", mitochondrial genes). At 0.3 they do not.
"""

# Features that only one part has differ in lift by rounding alone: such ties go to the likelier feature.
_DIGITS = 3


def relevance(inside: Floats, overall: Floats, balance: float = BALANCE) -> Floats:
    """Relevance of features in a part (Sievert & Shirley 2014), in nats; -inf for features that the part lacks.

    Parameters
    ----------
    inside
        Share of each feature in the part.
    overall
        Share of each feature in all data.
    balance
        λ: 1 orders by the share in the part, 0 by the ratio of this share to the share in all data.
    """
    present = (inside > 0) & (overall > 0)
    found = np.full(inside.shape, -np.inf)
    log_inside = np.log(inside[present])
    found[present] = balance * log_inside + (1.0 - balance) * (log_inside - np.log(overall[present]))
    return found


def ranked(inside: Floats, overall: Floats, n: int, by: By) -> list[tuple[int, float]]:
    """Positions and values of the first features of a part, largest first; features that it lacks are left out.

    Parameters
    ----------
    inside, overall
        Shares in the part and in all data. Negative weights count by their size.
    n
        Largest number of features.
    by
        ``"relevance"``, ``"probability"`` or ``"lift"`` (share in the part divided by share in all data).
    """
    if n < 1:
        raise InvalidInputError(f"n must be at least 1, got {n}.")
    if by not in ("relevance", "probability", "lift"):
        raise InvalidInputError(f"by={by!r} is unknown: give 'relevance', 'probability' or 'lift'.")
    size = np.abs(inside)
    values, scores = inside, size
    if by != "probability" and not np.any(inside < 0):
        scores = relevance(size, overall, BALANCE if by == "relevance" else 0.0)
        values = scores if by == "relevance" else np.exp(scores)
        scores = np.round(scores, _DIGITS)
    order = np.lexsort((np.arange(size.size), -size, -scores))[:n]
    return [(int(f), float(values[f])) for f in order if size[f] > 0]
