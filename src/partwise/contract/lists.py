"""Lists of features: the most likely ones for each sample, and those similar to a feature."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from partwise.contract.features import feature_position
from partwise.contract.offers import Offers
from partwise.core.blas import one_blas_thread
from partwise.core.data import CountMatrix, SparseData
from partwise.engines.base import Engine
from partwise.engines.local import LocalEngine
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats, Positions
from partwise.kernels.sums import largest_of_rows
from partwise.metrics.matching import unit_parts

# Largest number of expected values that a thread has in memory at once.
_CELLS_AT_ONCE = 2**21


@dataclass(frozen=True, eq=False)
class FeatureLists:
    """A list of features for each row, best first.

    Attributes
    ----------
    positions
        Rows x places; -1 where a row has no features left.
    values
        What the features are ordered by: expected values, probabilities of a one, or cosines; NaN at positions of -1.
    row_names, feature_names
        Names of the rows, and of all features.
    """

    positions: Positions
    values: Floats
    row_names: list[str]
    feature_names: list[str]

    @property
    def features(self) -> list[list[str]]:
        """Names of the features of each row, best first."""
        return [[self.feature_names[f] for f in row if f >= 0] for row in self.positions]

    def columns(self) -> dict[str, list[Any]]:
        """Columns of a table with one line per row and place: sample, place, feature, value."""
        rows, places = np.nonzero(self.positions >= 0)
        return {
            "sample": [self.row_names[n] for n in rows],
            "place": (places + 1).tolist(),
            "feature": [self.feature_names[f] for f in self.positions[rows, places]],
            "value": self.values[rows, places].tolist(),
        }


def best_features(
    score: Callable[[slice], Floats], data: Any, n: int, exclude_seen: bool, engine: Engine
) -> tuple[Positions, Floats]:
    """The features with the highest scores for each row, computed by threads in blocks of rows.

    Parameters
    ----------
    score
        Scores for a range of rows (rows x features), in a new array.
    data
        Checked data or a CSR matrix; the nonzeros are the features that a row has.
    n
        Length of the lists.
    exclude_seen
        Whether features that a row has already are left out.
    engine
        Engine whose threads are used.

    Returns
    -------
    positions, values
        Rows x places.
    """
    if n < 1:
        raise InvalidInputError(f"n must be at least 1, got {n}.")
    n_rows, n_features = data.shape
    size = min(n, n_features)
    positions, values = np.full((n_rows, size), -1, np.int64), np.full((n_rows, size), np.nan)
    step = max(1, _CELLS_AT_ONCE // max(1, n_features))
    blocks = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]

    def work(block: slice) -> None:
        own = np.asarray(data.indptr[block.start : block.stop + 1], dtype=np.int64)
        if not exclude_seen:
            own = np.zeros_like(own)
        largest_of_rows(score(block), own, data.indices, positions[block], values[block])

    with one_blas_thread():
        engine.here.for_each(work, blocks)
    return positions, values


def popular_features(X: Any, n: int = 10, *, exclude_seen: bool = True) -> Positions:
    """The features with the largest totals, without those that a row has already: the baseline for all lists.

    Parameters
    ----------
    X
        Counts or bits, samples x features.
    n
        Length of the lists.
    exclude_seen
        Leave out features that a sample has already.

    Returns
    -------
    ndarray
        Rows x places: positions of features; -1 where a row has no features left.

    Examples
    --------
    >>> from partwise.contract import popular_features
    >>> popular_features([[3, 0, 0], [0, 1, 0], [4, 0, 2]], 2).tolist()  # -1: there is no other
    [[2, 1], [0, 2], [1, -1]]
    """
    data = CountMatrix.build(X, caller="popular_features")

    def score(block: slice) -> Floats:
        return np.tile(data.column_sums, (block.stop - block.start, 1))

    return best_features(score, data, n, exclude_seen, LocalEngine())[0]


def list_scores(model: Offers, activations: Floats) -> Callable[[slice], Floats]:
    """Expected values of a range of rows. Rows without activations get the features' shares in the training data.

    Parameters
    ----------
    model
        A fitted model.
    activations
        Samples x parts.
    """
    unknown = ~np.any(activations, axis=1)

    def score(block: slice) -> Floats:
        expected = np.asarray(model.expected(activations[block]), dtype=np.float64)
        expected[unknown[block]] = model.feature_frequencies()
        return expected

    return score


def cosines(profiles: Floats, chosen: Positions) -> Floats:
    """Cosines of some columns with all columns; 0 where a column is empty."""
    units = unit_parts(profiles.T)
    return np.asarray(units[chosen] @ units.T)


def row_names(data: SparseData) -> list[str]:
    """Names of the rows, or their numbers from 0."""
    labels = data.row_labels
    return [str(n) for n in range(data.shape[0])] if labels is None else [str(name) for name in labels]


class ListsFeatures(Offers):
    """Lists that every fitted model gives."""

    _refit: Callable[[Any], Floats]

    def recommend(self, X: Any, n: int = 10, *, exclude_seen: bool = True) -> FeatureLists:
        """List the features with the highest expected values for each sample.

        Parameters
        ----------
        X
            Data as for `transform`, one row or many.
        n
            Length of the lists.
        exclude_seen
            Leave out features that a sample has already.

        Returns
        -------
        FeatureLists
            Positions, names and expected values (of bits: probabilities of a one), best first. A sample without any
            information gets the most frequent features of the training data, with their shares.

        Examples
        --------
        >>> import numpy as np
        >>> from partwise import PoissonNMF
        >>> X = np.kron(np.eye(2), np.ones((6, 3)))
        >>> model = PoissonNMF(2, random_state=0).fit(X)
        >>> model.recommend([[1, 0, 0, 0, 0, 0]], n=2).positions.tolist()
        [[1, 2]]
        """
        data = self.checked_data(X, caller="recommend")
        with self._compiling():
            activations = self._refit(data)
        found = best_features(list_scores(self, activations), data, n, exclude_seen, self._engine())
        return FeatureLists(*found, row_names(data), self.feature_labels())

    def similar_features(self, features: Any, n: int = 10) -> FeatureLists:
        """List the features that come from the same parts as a given feature.

        Parameters
        ----------
        features
            A name, a position, or several of them.
        n
            Length of the lists.

        Returns
        -------
        FeatureLists
            The features with the highest cosine similarity to each given feature. Cosines compare profiles over parts:
            how much of the feature each part explains in the training data.
        """
        check_is_fitted(self, "components_")
        names = self.feature_labels()
        asked = [features] if isinstance(features, str | Integral) else list(features)
        chosen = np.array([feature_position(names, one) for one in asked], dtype=np.int64)
        itself = CountMatrix.build(np.arange(len(names)) == chosen[:, None], caller="similar_features")
        alike = cosines(self.part_weights()[:, None] * self.feature_importance(), chosen)
        found = best_features(lambda block: alike[block].copy(), itself, n, True, self._engine())
        return FeatureLists(*found, [names[f] for f in chosen], names)
