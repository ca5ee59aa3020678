"""The parts of a report: their largest features for any relevance, and their pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.errors import InvalidInputError
from partwise.reporting.encoding import grey_png, rounded, visible
from partwise.reporting.model_view import ModelView

Floats = NDArray[np.float64]

TOP = 30
"""Features of a part that are listed at once."""

MOST_PIXELS = 2_000_000
"""Of all pictures together."""

_STEPS = 20
_DIGITS = 3  # of relevance
_KEPT = 6


def parts_section(view: ModelView, image_shape: tuple[int, int] | None = None) -> dict[str, Any]:
    """Names, weights, features and pictures of the parts, largest first.

    A part lists every feature that is among its first 30 for some λ (in steps of 0.05) of the relevance
    λ log p(f | k) + (1 - λ) log(p(f | k) / p(f)) (Sievert & Shirley 2014); the page sorts them as the slider asks.

    Parameters
    ----------
    view
        The model and its data.
    image_shape
        Height and width, where features are pixels.
    """
    inside, overall = view.model.feature_importance(), view.model.feature_frequencies(view.activations)
    inside_words, overall_words = view.model.importance_words
    lists = [_candidates(inside[k], overall, view.is_signed) for k in view.order]
    listed = np.unique(np.concatenate(lists)) if lists else np.empty(0, dtype=np.int64)
    place = {int(f): position for position, f in enumerate(listed)}
    active = set(view.model.active_components_.tolist())
    return {
        "names": [visible(view.names[k]) for k in view.order],
        "weights": rounded(view.weights[view.order]),
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


def _candidates(inside: Floats, overall: Floats, signed: bool) -> NDArray[np.int64]:
    """Features that some position of the slider lists."""
    if signed:
        return np.argsort(-np.abs(inside), kind="stable")[:TOP].astype(np.int64)
    present = np.flatnonzero((inside > 0) & (overall > 0))
    log_inside = np.log(inside[present])
    log_lift = log_inside - np.log(overall[present])
    found: set[int] = set()
    for step in range(_STEPS + 1):
        balance = step / _STEPS
        # Features of one part alone have the same lift; of such ties the page shows the most frequent first.
        relevance = np.round(balance * log_inside + (1.0 - balance) * log_lift, _DIGITS)
        first = np.lexsort((-log_inside, -relevance))[:TOP]
        found.update(present[first].tolist())
    return np.array(sorted(found), dtype=np.int64)


def _images(view: ModelView, shape: tuple[int, int] | None) -> list[str] | None:
    if shape is None:
        return None
    height, width = shape
    n_features = view.model.n_features_in_
    if height < 1 or width < 1 or height * width != n_features:
        raise InvalidInputError(
            f"image_shape={tuple(shape)} has {height * width} pixels, but the model has {n_features} features."
        )
    most = max(1, MOST_PIXELS // n_features)
    return [grey_png(np.abs(view.model.components_[k]).reshape(shape)) for k in view.order[:most]]
