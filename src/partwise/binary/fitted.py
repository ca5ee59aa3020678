"""What all estimators of bits can do once they are fitted: predict cells, score, measure perplexity."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from partwise.binary.inference.cells import Cells, hide
from partwise.core.data import BinaryMatrix
from partwise.core.estimator import FactorizationEstimator, check_array_is
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.resolve import resolve_engine
from partwise.errors import InvalidInputError

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

# A prediction that was never in doubt, and false, costs this much: maximum likelihood says 0 and 1 too easily.
_SURE = 1e-9


class BinaryEstimator(FactorizationEstimator):
    """Base of the estimators of bits, which have a probability for every cell."""

    probabilities_: Floats
    missing_cells_: Positions

    @abstractmethod
    def _activations(self, data: BinaryMatrix) -> Floats:
        """Activations of checked samples."""

    @abstractmethod
    def _probabilities(self, activations: Floats, columns: Any = slice(None)) -> Floats:
        """Probabilities of a one, of all features or of some."""

    def _data(self, X: Any, *, reset: bool, caller: str) -> BinaryMatrix:
        data = BinaryMatrix.build(X, caller=f"{type(self).__name__}.{caller}")
        self._check_columns(X, data, reset=reset)
        return data

    def _engine(self) -> Engine:
        return resolve_engine(self.engine, self.n_jobs)

    def _store_cells(self, data: BinaryMatrix, probabilities: Floats) -> None:
        self.probabilities_ = probabilities
        rows = np.repeat(np.arange(data.shape[0], dtype=np.int64), np.diff(data.missing_indptr))
        self.missing_cells_ = rows * data.shape[1] + data.missing_indices

    def transform(self, X: Any) -> Floats:
        """Activations of samples, the dictionary being given.

        Parameters
        ----------
        X
            Bits as for `fit`; missing cells say nothing.

        Returns
        -------
        ndarray
            Samples x components.
        """
        check_is_fitted(self, "components_")
        data = self._data(X, reset=False, caller="transform")
        with self._compiling():
            return self._activations(data)

    def predict_proba(self, X: Any = None, *, cells: tuple[Any, Any] | None = None) -> Floats:
        """Probability that a cell is one.

        Parameters
        ----------
        X
            None: the training matrix, missing cells included. Otherwise new samples, whose activations are found
            first.
        cells
            Rows and columns of some cells (two sequences of equal length); by default all.

        Returns
        -------
        ndarray
            Samples x features, or one number a cell.
        """
        check_is_fitted(self, "components_")
        if X is None:
            whole = self._training("predict_proba()", "probabilities_")
        else:
            whole = self._probabilities(self.transform(X))
        if cells is None:
            return whole.copy()
        picked: Floats = whole[checked_cells(cells, whole.shape)]
        return picked

    def _training(self, method: str, attribute: str) -> Floats:
        stored: Floats | None = getattr(self, attribute, None)
        if stored is None:
            raise InvalidInputError(
                f"{method} is about the matrix that fit was given, and this {type(self).__name__} has none: pass X, or"
                " fit it to a whole matrix."
            )
        return stored

    def perplexity(self, X: Any, *, cells: tuple[Any, Any] | None = None) -> float:
        """Mean negative log-likelihood of a held-out cell, in nats; smaller is better.

        Parameters
        ----------
        X
            The training matrix with held-out cells filled in: it has the same shape, and values where the training
            matrix had none.
        cells
            Rows and columns of the cells to score; by default all that were missing in the training matrix and are
            observed here.

        Examples
        --------
        >>> import numpy as np
        >>> from partwise import BinaryNMF
        >>> X = np.kron(np.eye(2), np.ones((10, 6)))
        >>> train = X.copy()
        >>> train[::5, ::3] = np.nan
        >>> model = BinaryNMF(5, n_draws=50, burn_in=50, thin=1, random_state=0).fit(train)
        >>> model.perplexity(X) < 0.3
        True
        """
        check_is_fitted(self, "components_")
        data = self._data(X, reset=False, caller="perplexity")
        whole = self._training("perplexity", "probabilities_")
        if data.shape != whole.shape:
            raise InvalidInputError(
                f"X has shape {data.shape}, but the training matrix had {whole.shape}: pass the same matrix with the"
                " held-out cells filled in (score is for new samples)."
            )
        bits = data.to_scipy().toarray().astype(bool)
        seen = ~data.missing_matrix().toarray()
        if cells is None:
            held_out = np.zeros(whole.size, bool)
            held_out[self.missing_cells_] = True
            chosen = held_out.reshape(whole.shape) & seen
            if not chosen.any():
                raise InvalidInputError(
                    "No cell of X was missing in the training matrix and is observed now, so there is nothing to score:"
                    " fit with some cells set to NaN, or name cells."
                )
            rows, columns = np.nonzero(chosen)
        else:
            rows, columns = checked_cells(cells, whole.shape)
            hidden = ~seen[rows, columns]
            if hidden.any():
                at = int(np.argmax(hidden))
                raise InvalidInputError(
                    f"cells: row {rows[at]}, column {columns[at]} of X is missing and cannot be scored: leave it out."
                )
        return -float(log_probability(whole[rows, columns], bits[rows, columns]).mean())

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood, in nats, of cells of new samples when the other half of their cells is given.

        Half of the observed cells of X are hidden, by a key that is the same for all models; activations are found from
        the others. Never the likelihood of cells that anything was fitted to; greater is better.

        Parameters
        ----------
        X
            Bits as for `fit`; best samples that the model was not fitted to.
        y
            Ignored.
        """
        check_is_fitted(self, "components_")
        data = self._data(X, reset=False, caller="score")
        listed = Cells.of(data)
        hidden = Key(0).for_stage("completion").generator().random(listed.n_cells) < 0.5
        if not hidden.any():
            raise InvalidInputError("X has too few observed cells to hide some and score them: pass more samples.")
        with self._compiling():
            activations = self._activations(hide(data, hidden))
        rows, codes = listed.rows_of_cells()[hidden], listed.codes[hidden]
        found = np.empty(rows.size)
        ends = [*np.flatnonzero(np.diff(rows)) + 1, rows.size]
        for begin, end in itertools.pairwise([0, *ends]):
            own = activations[rows[begin] : rows[begin] + 1]
            found[begin:end] = self._probabilities(own, codes[begin:end] >> 1)[0]
        return float(log_probability(found, (codes & 1) == 1).mean())

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if not hasattr(self, "probabilities_"):
            return
        whole, missing = self.probabilities_, self.missing_cells_
        check_array_is(whole, "probabilities_", (len(whole), self.n_features_in_))
        if missing.ndim != 1 or missing.dtype.kind != "i" or not np.all((missing >= 0) & (missing < whole.size)):
            raise ValueError("its missing cells are not positions in its probabilities")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags


def log_probability(probability: Floats, bits: NDArray[np.bool_]) -> Floats:
    """Logarithm of the probability of each bit, with certainty kept a billionth from 0 and 1."""
    clipped = np.clip(probability, _SURE, 1.0 - _SURE)
    return np.where(bits, np.log(clipped), np.log1p(-clipped))


def checked_cells(cells: Any, shape: tuple[int, ...]) -> tuple[Positions, Positions]:
    """Rows and columns as arrays, or one sentence about what is wrong with them."""
    try:
        rows, columns = (np.asarray(part) for part in cells)
    except (TypeError, ValueError):
        rows, columns = np.empty(0), np.empty(1)
    if rows.shape != columns.shape or rows.ndim != 1 or rows.dtype.kind not in "iu" or columns.dtype.kind not in "iu":
        raise InvalidInputError("cells must be a pair (rows, columns) of equally long sequences of whole numbers.")
    for name, part, size in (("row", rows, shape[0]), ("column", columns, shape[1])):
        outside = (part < 0) | (part >= size)
        if outside.any():
            raise InvalidInputError(
                f"cells: there is no {name} {part[np.argmax(outside)]}; {name}s go from 0 to {size - 1}."
            )
    return rows.astype(np.int64), columns.astype(np.int64)
