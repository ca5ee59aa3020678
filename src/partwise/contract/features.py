"""Names of features and parts: remembered in a fit, checked against new data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from partwise.core.data import SparseData
from partwise.errors import InvalidInputError


def check_columns(model: Any, X: Any, data: SparseData, *, reset: bool) -> None:
    """Remember the features of the training data in a model, or refuse data that have others.

    Parameters
    ----------
    model
        The estimator, which gets ``n_features_in_`` and ``feature_names_in_``.
    X, data
        The data as they were given, and checked.
    reset
        Whether they are training data.
    """
    labels = data.column_labels
    if labels is None or hasattr(X, "columns"):
        names, counts = np.unique([] if labels is None else labels, return_counts=True)
        if np.any(counts > 1):
            name = str(names[np.argmax(counts)])
            raise InvalidInputError(
                f"{int(counts.max())} columns of X are called {name!r}: give each feature a name of its own."
            )
        # Arrays and frames: as every estimator of scikit-learn does. It does not know tables and AnnData.
        validate_data(model, X, reset=reset, skip_check_array=True)
        return
    n_features = data.shape[1]
    if reset:
        model.n_features_in_ = n_features
        model.feature_names_in_ = labels.astype(object)
        return
    if n_features != model.n_features_in_:
        raise InvalidInputError(
            f"X has {n_features} features, but {type(model).__name__} is expecting {model.n_features_in_} features"
            " as input."
        )
    known = getattr(model, "feature_names_in_", None)
    if known is not None and not np.array_equal(labels, known):
        at = int(np.argmax(labels.astype(object) != known))
        raise InvalidInputError(
            f"Column {at} of X is {str(labels[at])!r}, but {type(model).__name__} was fitted with {known[at]!r}"
            " there: bring the columns into the order of feature_names_in_."
        )


def given_names(
    feature_names: Any, n_features: int, component_names: Any, n_components: int
) -> dict[str, NDArray[Any]]:
    """Attributes for the names that come with given parts; names that were not given are left out."""
    given = (
        ("feature_names", "feature_names_in_", feature_names, n_features, "features"),
        ("component_names", "component_names_", component_names, n_components, "components"),
    )
    found: dict[str, NDArray[Any]] = {}
    for argument, attribute, names, wanted, what in given:
        if names is not None:
            found[attribute] = np.asarray([str(name) for name in names], dtype=object)
            if found[attribute].shape != (wanted,):
                raise InvalidInputError(f"{argument} has {found[attribute].size} names for {wanted} {what}.")
    return found
