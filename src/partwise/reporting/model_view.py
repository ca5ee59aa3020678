"""What a report knows: the model, its data if there are any, and the parts from the largest to the smallest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from partwise.contract.estimator import FactorizationEstimator
from partwise.core.data import SparseData
from partwise.plotting import part_shares

Floats = NDArray[np.float64]

MOST_PARTS = 200
"""Parts that a report shows; of more, the largest."""


@dataclass(frozen=True, eq=False)
class ModelView:
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

    model: FactorizationEstimator
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
        return self.model.declares.data == "bits"

    @property
    def is_signed(self) -> bool:
        """Whether components have negative weights, so that parts neither add up nor have shares."""
        return self.model.declares.signed

    @classmethod
    def of(cls, model: FactorizationEstimator, X: Any) -> ModelView:
        """Look at a model and, perhaps, data."""
        check_is_fitted(model, "components_")
        data = None if X is None else model.checked_data(X, caller="report")
        activations = model.kept_activations if X is None else model.transform(X)
        shares = None if activations is None else part_shares(np.abs(activations), np.abs(model.components_))
        weights = model.part_weights(activations)
        order = [int(k) for k in np.argsort(-weights, kind="stable")[:MOST_PARTS]]
        samples = None if data is None else data.row_labels
        labels = model.part_labels(), model.feature_labels()
        return cls(model, data, activations, shares, weights, order, *labels, samples)
