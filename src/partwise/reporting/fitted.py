"""What a report knows: the model, its data if there are any, and the parts from the largest to the smallest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from partwise.core.data import SparseData
from partwise.plotting import part_shares
from partwise.plotting._figures import part_titles
from partwise.plotting.features import feature_names

Floats = NDArray[np.float64]

MOST_PARTS = 200
"""Parts that a report shows; of more, the largest."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model, seen from its parts.

    Attributes
    ----------
    model
        The estimator.
    data
        Checked data, or None.
    activations
        Samples x components of the data, or of the training data where the model keeps them, or None.
    shares
        Samples x components: what share of each sample each part makes up, or None.
    weights
        Share of everything that each part makes up.
    order
        Positions of the parts that are shown, largest first.
    names, features, samples
        Names of parts (all), features and samples; None for samples without names.
    """

    model: Any
    data: SparseData | None
    activations: Floats | None
    shares: Floats | None
    weights: Floats
    order: list[int]
    names: list[str]
    features: list[str]
    samples: Any

    @property
    def is_binary(self) -> bool:
        """Whether the model is one of bits."""
        return hasattr(self.model, "predict_proba")

    @property
    def is_signed(self) -> bool:
        """Whether components have negative weights, so that parts neither add up nor have shares."""
        return bool(np.any(self.model.components_ < 0))

    @classmethod
    def of(cls, model: Any, X: Any) -> Fitted:
        """Look at a model and, perhaps, data."""
        check_is_fitted(model, "components_")
        data = None if X is None else model._data(X, reset=False, caller="report")
        activations = getattr(model, "activations_", None) if X is None else model.transform(X)
        shares = None if activations is None else part_shares(np.abs(activations), np.abs(model.components_))
        weights = _weights(model, activations)
        order = [int(k) for k in np.argsort(-weights, kind="stable")[:MOST_PARTS]]
        names = part_titles(None, model, list(range(model.n_components_)))
        features = feature_names(model, None, model.n_features_in_)
        samples = None if data is None else data.row_labels
        return cls(model, data, activations, shares, weights, order, names, features, samples)


def _weights(model: Any, activations: Floats | None) -> Floats:
    """Shares of the expected counts or ones: from activations, or from what the model kept of its training data."""
    sums = np.abs(model.components_).sum(axis=1)
    if activations is not None:
        found = np.abs(activations).sum(axis=0) * sums
    elif hasattr(model, "mean_activations_"):
        found = model.mean_activations_ * sums
    elif hasattr(model, "rate_"):
        found = model.shape_ / model.rate_ * sums
    else:
        found = np.asarray(getattr(model, "component_counts_", getattr(model, "component_cells_", sums)), dtype=float)
    total = float(found.sum())
    weights: Floats = found / total if total > 0 else np.full(found.size, 1.0 / found.size)
    return weights
