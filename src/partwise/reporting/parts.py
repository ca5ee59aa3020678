"""The parts of a report: their largest features for any relevance, and their pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.errors import InvalidInputError
from partwise.reporting.escape import visible
from partwise.reporting.fitted import Fitted
from partwise.reporting.numbers import rounded
from partwise.reporting.png import grey_png

Floats = NDArray[np.float64]

TOP = 30
"""Features of a part that are listed at once."""

MOST_PIXELS = 2_000_000
"""Of all pictures together."""

_STEPS = 20
_DIGITS = 3  # of relevance
_KEPT = 6


def parts_section(fitted: Fitted, image_shape: tuple[int, int] | None = None) -> dict[str, Any]:
    """Names, weights, features and pictures of the parts, largest first.

    A part lists every feature that is among its first 30 for some λ (in steps of 0.05) of the relevance
    λ log p(f | k) + (1 - λ) log(p(f | k) / p(f)) (Sievert & Shirley 2014); the page sorts them as the slider asks.

    Parameters
    ----------
    fitted
        The model and its data.
    image_shape
        Height and width, where features are pixels.
    """
    inside, overall = _probabilities(fitted)
    lists = [_candidates(inside[k], overall, fitted.is_signed) for k in fitted.order]
    listed = np.unique(np.concatenate(lists)) if lists else np.empty(0, dtype=np.int64)
    place = {int(f): position for position, f in enumerate(listed)}
    active = set(fitted.model.active_components_.tolist())
    return {
        "names": [visible(fitted.names[k]) for k in fitted.order],
        "weights": rounded(fitted.weights[fitted.order]),
        "active": [k in active for k in fitted.order],
        "total": int(fitted.model.n_components_),
        "signed": fitted.is_signed,
        "inside_words": _words(fitted)[0],
        "overall_words": _words(fitted)[1],
        "top": TOP,
        "features": [visible(fitted.features[f]) for f in listed],
        "overall": rounded(overall[listed], _KEPT),
        "lists": [[place[int(f)] for f in features] for features in lists],
        "values": [rounded(inside[k, features], _KEPT) for k, features in zip(fitted.order, lists, strict=True)],
        "images": _images(fitted, image_shape),
        "image_shape": None if image_shape is None else list(image_shape),
    }


def _probabilities(fitted: Fitted) -> tuple[Floats, Floats]:
    """p(f | k), and p(f) as the model has it: shares of a part for counts, entries as they are for bits."""
    components = fitted.model.components_
    if fitted.is_signed:
        sizes = np.abs(components).sum(axis=1, keepdims=True)
        inside: Floats = np.divide(components, sizes, out=np.zeros_like(components), where=sizes > 0)
        return inside, fitted.weights @ np.abs(inside)
    if fitted.is_binary:
        means = fitted.weights if fitted.activations is None else fitted.activations.mean(axis=0)
        return components, means @ components
    sums = components.sum(axis=1, keepdims=True)
    inside = np.divide(components, sums, out=np.zeros_like(components), where=sums > 0)
    return inside, fitted.weights @ inside


def _words(fitted: Fitted) -> tuple[str, str]:
    """What the two numbers of a feature are."""
    if fitted.is_signed:
        return "share of the part's weights", "share of all weights"
    if not fitted.is_binary:
        return "share of the part", "share of everything"
    # Where features are spread over parts, an entry is the part's share of the feature.
    given_part = getattr(fitted.model, "model", None) == "dir-beta"
    return ("probability in the part" if given_part else "share of the feature in the part"), "frequency overall"


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


def _images(fitted: Fitted, shape: tuple[int, int] | None) -> list[str] | None:
    if shape is None:
        return None
    height, width = shape
    n_features = fitted.model.n_features_in_
    if height < 1 or width < 1 or height * width != n_features:
        raise InvalidInputError(
            f"image_shape={tuple(shape)} has {height * width} pixels, but the model has {n_features} features."
        )
    most = max(1, MOST_PIXELS // n_features)
    return [grey_png(np.abs(fitted.model.components_[k]).reshape(shape)) for k in fitted.order[:most]]
