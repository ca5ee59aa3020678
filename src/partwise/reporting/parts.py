"""The parts of a report: their top features for any relevance, and their images.

Also, a map on which parts that share features are close, and the nearest neighbours of each part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.kernels.arrays import Floats, Integers
from partwise.metrics import coherence, part_similarity, representative_samples
from partwise.metrics.coherence import BALANCE
from partwise.plotting.images import checked_pixels
from partwise.reporting.encoding import grey_png, rounded, visible
from partwise.reporting.model_view import ModelView

_NEAREST = 4


def neighbours(view: ModelView) -> dict[str, Any]:
    """Positions of the shown parts on the map, and the most similar parts of each.

    Parameters
    ----------
    view
        The model; parts are identified by their position in its order.
    """
    alike = part_similarity(view.model)[np.ix_(view.order, view.order)]
    others = alike - 2.0 * np.eye(len(alike))
    nearest = np.argsort(-others, axis=1, kind="stable")[:, : min(_NEAREST, len(alike) - 1)]
    return {
        "map": [rounded(place, 4) for place in places(np.sqrt(1.0 - alike))],
        "nearest": [[[int(k), rounded([alike[row, k]], 3)[0]] for k in ks] for row, ks in enumerate(nearest)],
    }


def places(distances: Floats) -> Floats:
    """Classical multidimensional scaling in two dimensions, scaled to -1 and 1; the signs of the axes are fixed.

    Parameters
    ----------
    distances
        Parts x parts: the square root of the Jensen-Shannon divergence, which is a distance.

    Examples
    --------
    >>> places(np.array([[0.0, 1.0], [1.0, 0.0]])).tolist()
    [[1.0, 0.0], [-1.0, 0.0]]
    """
    squares = np.square(distances)
    centred = -0.5 * (squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean())
    values, vectors = np.linalg.eigh(centred)
    found = np.zeros((len(distances), 2))
    for axis in range(min(2, len(distances))):
        vector = vectors[:, -1 - axis]
        turned = vector * (1.0 if vector[np.argmax(np.round(np.abs(vector), 9))] > 0 else -1.0)
        found[:, axis] = turned * np.sqrt(max(values[-1 - axis], 0.0))
    largest = float(np.abs(found).max(initial=0.0))
    return found / largest if largest > 1e-9 else np.zeros_like(found)


TOP = 30
"""Number of features listed per part."""

MOST_PIXELS = 2_000_000
"""Limit for all images together."""

_TYPICAL = 5
_LONGEST_TEXT = 1200
_TEXT_BYTES = 1_500_000
_STEPS = 20
_DIGITS = 3  # for the relevance
_KEPT = 6


def parts_section(view: ModelView, image_shape: tuple[int, int] | None = None, texts: Any = None) -> dict[str, Any]:
    """Names, weights, features, neighbours, typical samples and images of the parts, largest first.

    The relevance is λ log p(f | k) + (1 - λ) log(p(f | k) / p(f)) (Sievert & Shirley 2014). A part lists every feature
    that is among its first 30 for some λ, in steps of 0.05. The page sorts them by the slider.

    Parameters
    ----------
    view
        The model and its data.
    image_shape
        Height and width, if features are pixels.
    texts
        The text of each sample, or None.
    """
    inside, overall = view.model.feature_importance(), view.model.feature_frequencies(view.activations)
    inside_words, overall_words = view.model.importance_words
    lists = [_candidates(inside[k], overall, view.is_signed) for k in view.order]
    listed = np.unique(np.concatenate(lists)) if lists else np.empty(0, dtype=np.int64)
    place = {int(f): position for position, f in enumerate(listed)}
    active = set(view.model.active_components_.tolist())
    tentative = set(view.model.tentative_parts())
    return {
        "names": [visible(view.names[k]) for k in view.order],
        "numbers": view.order,
        "balance": BALANCE,
        **neighbours(view),
        "coherence": _coherence(view),
        "typical": _typical(view, texts),
        "weights": rounded(view.weights[view.order]),
        "tentative": [k in tentative for k in view.order],
        "active": [k in active for k in view.order],
        "total": int(view.model.n_components_),
        "signed": view.is_signed,
        "inside_words": inside_words,
        "overall_words": overall_words,
        "top": TOP,
        "features": [visible(view.features[f]) for f in listed],
        "overall": rounded(overall[listed], _KEPT),
        "lists": [[place[int(f)] for f in features] for features in lists],
        "values": [rounded(inside[k, features], _KEPT) for k, features in zip(view.order, lists, strict=True)],
        "images": _images(view, image_shape),
        "image_shape": None if image_shape is None else list(image_shape),
    }


def _candidates(inside: Floats, overall: Floats, signed: bool) -> Integers:
    """Features that some position of the slider lists."""
    if signed:
        return np.argsort(-np.abs(inside), kind="stable")[:TOP].astype(np.int64)
    present = np.flatnonzero((inside > 0) & (overall > 0))
    log_inside = np.log(inside[present])
    log_lift = log_inside - np.log(overall[present])
    found: set[int] = set()
    for step in range(_STEPS + 1):
        balance = step / _STEPS
        # Features that only one part has share the same lift; the page shows the most frequent of them first.
        relevance = np.round(balance * log_inside + (1.0 - balance) * log_lift, _DIGITS)
        found.update(present[np.lexsort((-log_inside, -relevance))[:TOP]].tolist())
    return np.array(sorted(found), dtype=np.int64)


def _coherence(view: ModelView) -> list[float | int | None] | None:
    if view.data is None or view.is_signed:
        return None
    return rounded(coherence(view.model, view.data.to_table())[view.order], 3)


def _typical(view: ModelView, texts: Any) -> list[list[dict[str, Any]]] | None:
    """The most typical samples of each part, with as much of their texts as fits."""
    if view.activations is None or view.is_signed:
        return None
    found = representative_samples(view.model, n=_TYPICAL, activations=view.activations)
    longest = min(_LONGEST_TEXT, _TEXT_BYTES // max(1, _TYPICAL * len(view.order)))
    return [
        [
            {
                "label": visible(f"sample {row}" if view.samples is None else view.samples[row]),
                "share": rounded([share])[0],
                "text": None if texts is None else visible(" ".join(str(texts[row])[: 2 * longest].split()), longest),
            }
            for row, share in found[k]
        ]
        for k in view.order
    ]


def _images(view: ModelView, shape: tuple[int, int] | None) -> list[str] | None:
    if shape is None:
        return None
    n_features = view.model.n_features_in_
    checked_pixels(shape, n_features, "the model has", "image_shape")
    most = max(1, MOST_PIXELS // n_features)
    return [grey_png(np.abs(view.model.components_[k]).reshape(shape)) for k in view.order[:most]]
