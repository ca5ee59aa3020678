"""Names of features and parts: a fit stores them, and new data are aligned to them."""

import warnings
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from partwise.core.data import SparseData
from partwise.errors import FeatureMatchWarning, InvalidInputError

Data = TypeVar("Data", bound=SparseData)

# New data must have at least this share of the model's features.
_SMALLEST_SHARE = 0.1


def check_columns(model: Any, X: Any, data: SparseData, *, reset: bool) -> None:
    """Store the features of the training data in a model, or refuse data with another number of features.

    Parameters
    ----------
    model
        The estimator, which gets ``n_features_in_`` and ``feature_names_in_``.
    X, data
        The data as they were given, and after the checks.
    reset
        Whether they are training data.
    """
    labels = data.column_labels
    names, counts = np.unique([] if labels is None else labels, return_counts=True)
    repeated = bool(np.any(counts > 1))
    if labels is None or hasattr(X, "columns"):
        if repeated:
            _refuse_repeated(str(names[np.argmax(counts)]), int(counts.max()))
        # Arrays and frames: as every scikit-learn estimator does. scikit-learn does not know tables and AnnData.
        validate_data(model, X, reset=reset, skip_check_array=True)
        return
    n_features = data.shape[1]
    if reset:
        if repeated:
            warnings.warn(
                f"{counts.max()} features of X are called {str(names[np.argmax(counts)])!r}: make names unique (of"
                " AnnData by var_names_make_unique()), or new samples cannot be matched to the model by name.",
                FeatureMatchWarning,
                stacklevel=5,
            )
        model.n_features_in_ = n_features
        model.feature_names_in_ = labels.astype(object)
        return
    known = getattr(model, "feature_names_in_", None)
    if n_features != model.n_features_in_:
        raise InvalidInputError(
            f"X has {n_features} features, but {type(model).__name__} is expecting {model.n_features_in_} features"
            " as input."
        )
    if known is not None and not np.array_equal(labels, known):
        at = int(np.argmax(labels.astype(object) != known))
        raise InvalidInputError(
            f"Column {at} of X is {str(labels[at])!r}, but {type(model).__name__} was fitted with {known[at]!r}"
            " there: bring the columns into the order of feature_names_in_."
        )


def named_otherwise(model: Any, X: Any, data: SparseData) -> bool:
    """Whether new data and a model have different feature names, so that the data must be aligned by name."""
    known, labels = getattr(model, "feature_names_in_", None), data.column_labels
    if known is None or labels is None or data.by_rows:  # rows on disk are not rewritten
        return False
    if hasattr(X, "columns") and not all(isinstance(name, str) for name in X.columns):
        return False
    return not np.array_equal(labels, known)


def aligned(model: Any, data: Data, *, takes_missing: bool) -> Data:
    """New data with the features of a model, in the order of the model, matched by name.

    Features that the data lack are missing in every row. Features that the model does not have are left out.

    Parameters
    ----------
    model
        The fitted estimator, whose features have names.
    data
        Checked data, whose features have names.
    takes_missing
        Whether the model accepts missing cells in new samples.
    """
    known: NDArray[Any] = model.feature_names_in_
    target = positions_of(known, np.asarray(data.column_labels))
    taken, counts = np.unique(target[target >= 0], return_counts=True)
    if np.any(counts > 1):
        _refuse_repeated(str(known[taken[np.argmax(counts)]]), int(counts.max()))
    absent = np.setdiff1d(np.arange(known.size), target).astype(np.int32)
    n_matched, n_unknown = known.size - absent.size, int(np.sum(target < 0))
    if n_matched < _SMALLEST_SHARE * known.size:
        _refuse_few(model, data, n_matched)
    if absent.size and not takes_missing:
        raise InvalidInputError(
            f"X lacks {absent.size} of the {known.size} features of this {type(model).__name__}, such as"
            f" {known[absent[0]]!r}, and this model does not handle missing cells of new samples. Add these features (0"
            " where nothing was counted), or refit its parts with PoissonNMF.from_components."
        )
    if absent.size or n_unknown:
        lacking = f"; the other {absent.size} count as missing" if absent.size else ""
        further = "further feature of X is" if n_unknown == 1 else "further features of X are"
        unknown = f"; {n_unknown} {further} left out" if n_unknown else ""
        told = f"X has {n_matched} of the {known.size} features of the model{lacking}{unknown}."
        warnings.warn(told, FeatureMatchWarning, stacklevel=5)
    n_rows = data.shape[0]
    indptr, indices, values = _moved(data.indptr, data.indices, data.values, target)
    hidden = _moved(data.missing_indptr, data.missing_indices, np.ones(data.n_missing, np.bool_), target)[:2]
    if absent.size:
        hidden = _with_columns(*hidden, absent)
    return replace(
        data,
        shape=(n_rows, known.size),
        indptr=indptr,
        indices=indices,
        values=values,
        missing_indptr=hidden[0],
        missing_indices=hidden[1],
        column_labels=known.astype(np.str_),
    )


def positions_of(known: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.int64]:
    """Position of each label among known names, -1 if it is unknown; no name may occur twice."""
    places: dict[str, int] = {}
    for place, name in enumerate(known):
        if places.setdefault(str(name), place) != place:
            places[str(name)] = -2
    found = np.array([places.get(str(name), -1) for name in labels], dtype=np.int64)
    if np.any(found == -2):
        name = str(labels[np.argmax(found == -2)])
        raise InvalidInputError(f"the model has the feature {name!r} twice, so that columns cannot be matched by name.")
    return found


def parts_of_features(model: Any, parts: Any, labels: Any, unknown: float = np.nan) -> NDArray[Any]:
    """Values of parts x features of a model as features x parts, for features with given names in their order.

    Parameters
    ----------
    model
        The model. Its features may differ, or be in another order.
    parts
        A value for each part and feature of the model.
    labels
        The names; None = the features of the model itself.
    unknown
        The value for features that the model does not have.
    """
    values, known = np.asarray(parts).T, model.known_features
    if labels is None or known is None or np.array_equal(labels, known):
        return np.ascontiguousarray(values)
    places = positions_of(known, np.asarray(labels))
    return np.where((places >= 0)[:, None], values[places], unknown)


def feature_position(names: list[str], feature: Any) -> int:
    """Position of a feature given by name or position."""
    if not isinstance(feature, str) and 0 <= int(feature) < len(names):
        return int(feature)
    if str(feature) not in names:
        raise InvalidInputError(f"there is no feature {feature!r}: give a name, or a position below {len(names)}.")
    return names.index(str(feature))


def _moved(indptr: Any, indices: Any, values: Any, target: NDArray[np.int64]) -> tuple[Any, Any, Any]:
    """CSR arrays with columns moved to new positions; those at -1 are left out."""
    places = target[indices]
    kept = places >= 0
    kept_before = np.concatenate(([0], np.cumsum(kept)))
    shape = indptr.size - 1, int(target.max(initial=0)) + 1
    moved = sp.csr_array((values[kept], places[kept], kept_before[indptr]), shape=shape)
    moved.sort_indices()
    return moved.indptr.astype(np.int64), moved.indices.astype(np.int32), moved.data


def _with_columns(indptr: Any, indices: Any, columns: Any) -> tuple[Any, Any]:
    """A CSR pattern with some new columns filled in every row."""
    n_rows = indptr.size - 1
    if not indices.size:  # the usual case, and the largest one
        return np.arange(n_rows + 1, dtype=np.int64) * columns.size, np.tile(columns, n_rows)
    rows = np.concatenate((np.repeat(np.arange(n_rows), np.diff(indptr)), np.repeat(np.arange(n_rows), columns.size)))
    joined = np.concatenate((indices, np.tile(columns, n_rows)))
    return indptr + np.arange(n_rows + 1) * columns.size, joined[np.lexsort((joined, rows))].astype(np.int32)


def _refuse_repeated(name: str, count: int) -> None:
    raise InvalidInputError(f"{count} columns of X are called {name!r}: give each feature a different name.")


def _refuse_few(model: Any, data: SparseData, n_matched: int) -> None:
    known, labels, rows = model.feature_names_in_, data.column_labels, data.row_labels
    remedy = "use the same kind of names" if n_matched == 0 else "pass more of the model's features"
    if rows is not None and np.isin(rows, known.astype(np.str_)).sum() >= _SMALLEST_SHARE * known.size:
        remedy = "the rows of X have such names, so swap rows and columns (--transpose)"
    raise InvalidInputError(
        f"X has {n_matched} of the {known.size} features of this {type(model).__name__}, too few to continue: the model"
        f" has names such as {known[0]!r}, and X such as {str(labels[0]) if labels is not None else ''!r}; {remedy}."
    )


def checked_names(feature_names: Any, n_features: int, component_names: Any, n_components: int) -> dict[str, Any]:
    """Attributes for the names that come with given parts; names that were not given are left out."""
    given = (
        ("feature_names", "feature_names_in_", feature_names, n_features, "features"),
        ("component_names", "component_names_", component_names, n_components, "parts"),
    )
    found: dict[str, NDArray[Any]] = {}
    for argument, attribute, names, wanted, what in given:
        if names is not None:
            found[attribute] = np.asarray([str(name) for name in names], dtype=object)
            if found[attribute].shape != (wanted,):
                raise InvalidInputError(f"{argument} has {found[attribute].size} names for {wanted} {what}.")
    return found
