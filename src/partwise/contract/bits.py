"""What all models of bits share: cell probabilities, and scores per held-out cell."""

import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from partwise.contract.estimator import FactorizationEstimator
from partwise.contract.heldout import HiddenCells, ThinnedCounts, bernoulli_rows
from partwise.contract.model_file import check_array_is
from partwise.core.data import BinaryMatrix
from partwise.core.keys import Key
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Bools, Floats, Positions

# Maximum likelihood easily predicts 0 or 1 exactly. Probabilities are clipped here, so a wrong one has a finite cost.
_SURE = 1e-9
# A part counts as active if it explains this share of the observed cells.
_ACTIVE = 0.01


@dataclass(eq=False, repr=False)
class BitModel(FactorizationEstimator):
    """Base class of the estimators for bits. They have a probability for every cell."""

    probabilities_: Floats = field(init=False)
    missing_cells_: Positions = field(init=False)

    def _store_cells(self, data: BinaryMatrix, probabilities: Floats) -> None:
        """Keep the probability of each training cell, and which cells were missing."""
        self.probabilities_ = probabilities
        rows = np.repeat(np.arange(data.shape[0], dtype=np.int64), np.diff(data.missing_indptr))
        self.missing_cells_ = rows * data.shape[1] + data.missing_indices

    def _active_share(self) -> float:
        return _ACTIVE if self.active_threshold is None else float(self.active_threshold)

    def sample_cells(self, expected: Floats, generator: np.random.Generator) -> Floats:
        """Draw bits with given probabilities."""
        return (generator.random(expected.shape) < expected).astype(np.float64)

    def feature_importance(self) -> Floats:
        """Parts x features: the entries themselves if they are probabilities, or shares of signed parts."""
        return super().feature_importance() if self.declares.signed else self.components_

    def feature_frequencies(self, activations: Floats | None = None) -> Floats:
        """Probability of a one for each feature, in samples with given activations or in the training data."""
        if self.declares.signed or activations is None:
            return super().feature_frequencies(activations)
        return np.asarray(activations.mean(axis=0) @ self.components_)

    def held_out_log_likelihood(self, held_out: ThinnedCounts | HiddenCells) -> Floats:
        """Log probability of each row's held-out cells, in nats.

        Parameters
        ----------
        held_out
            Cells that were hidden from the training data of this model.
        """
        if isinstance(held_out, ThinnedCounts):
            raise InvalidInputError(f"{type(self).__name__} is a model of zeros and ones, and cannot score counts.")
        return bernoulli_rows(self.predict_proba(cells=(held_out.rows, held_out.columns)), held_out)

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
            Samples x features, or one number per cell.
        """
        check_is_fitted(self, "components_")
        own = self._training("predict_proba()", "probabilities_") if X is None else None
        whole = self.expected(self.transform(X)) if own is None else own
        return whole.copy() if cells is None else np.asarray(whole[checked_cells(cells, whole.shape)])

    def _training(self, method: str, attribute: str) -> Floats:
        stored: Floats | None = getattr(self, attribute, None)
        if stored is None:
            raise InvalidInputError(
                f"{method} is about the matrix that fit was given, and this {type(self).__name__} has none: pass X, or"
                " fit it to a whole matrix."
            )
        return stored

    def log_loss(self, X: Any, *, cells: tuple[Any, Any] | None = None) -> float:
        """Mean negative log-likelihood of a held-out cell, in nats per cell; lower is better.

        Parameters
        ----------
        X
            The training matrix with held-out cells filled in: the same shape, with values where the training matrix had
            missing cells.
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
        >>> model.log_loss(X) < 0.3
        True
        """
        data = self.checked_data(X, caller="log_loss")
        whole = self._training("log_loss", "probabilities_")
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
        """Held-out log-likelihood per cell of new samples, in nats; higher is better.

        Half of the observed cells of X are hidden, by a key that is the same for all models. Activations are found from
        the other half. No cell is scored that was used to fit anything.

        Parameters
        ----------
        X
            Bits as for `fit`, preferably samples that the model was not fitted to.
        y
            Ignored.
        """
        data = self.checked_data(X, caller="score")
        self._say_if_training(data)
        observed = np.flatnonzero(~data.missing_matrix().toarray())
        hidden = observed[Key(0).for_stage("completion").generator().random(observed.size) < 0.5]
        if not hidden.size:
            raise InvalidInputError("X has too few observed cells to hold some out and score them: pass more samples.")
        rows, columns = np.divmod(hidden, data.shape[1])
        given, bits = hide(data, rows, columns)
        with self._compiling():
            activations = self._activations(given)
            found, ends = np.empty(rows.size), [*np.flatnonzero(np.diff(rows)) + 1, rows.size]
            for begin, end in itertools.pairwise([0, *ends]):  # the cells of one row
                found[begin:end] = self.expected(activations[rows[begin] : rows[begin] + 1], columns[begin:end])[0]
        return float(log_probability(found, bits).mean())

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if not hasattr(self, "probabilities_"):
            return
        whole, missing = self.probabilities_, self.missing_cells_
        check_array_is(whole, "probabilities_", (len(whole), self.n_features_in_))
        if missing.ndim != 1 or missing.dtype.kind != "i" or not np.all((missing >= 0) & (missing < whole.size)):
            raise ValueError("its missing cells are not positions in its probabilities")


def hide(data: BinaryMatrix, rows: Positions, columns: Positions) -> tuple[BinaryMatrix, Bools]:
    """Hide some more observed cells of the data, and return the bits of these cells."""
    pattern = sp.csr_array((np.ones(rows.size, bool), (rows, columns)), shape=data.shape)
    missing = sp.csr_array(data.missing_matrix() + pattern)
    missing.sort_indices()
    hidden = pattern.toarray()
    ones = np.repeat(np.arange(data.shape[0]), np.diff(data.indptr)), data.indices
    bits = np.zeros(data.shape, bool)
    bits[ones] = True
    indptr, indices = missing.indptr.astype(np.int64), missing.indices.astype(np.int32)
    given = replace(data.only(~hidden[ones]), missing_indptr=indptr, missing_indices=indices)
    return given, bits[rows, columns]


def log_probability(probability: Floats, bits: Bools) -> Floats:
    """Log probability of each bit, with probabilities kept a billionth away from 0 and 1."""
    clipped = np.clip(probability, _SURE, 1.0 - _SURE)
    return np.where(bits, np.log(clipped), np.log1p(-clipped))


def checked_cells(cells: Any, shape: tuple[int, ...]) -> tuple[Positions, Positions]:
    """Rows and columns as arrays, or an error that says what is wrong with them."""
    try:
        rows, columns = (np.asarray(part) for part in cells)
    except (TypeError, ValueError):
        rows, columns = np.empty(0), np.empty(1)
    if rows.shape != columns.shape or rows.ndim != 1 or rows.dtype.kind not in "iu" or columns.dtype.kind not in "iu":
        raise InvalidInputError("cells must be a pair (rows, columns) of equally long sequences of whole numbers.")
    for name, part, size in (("row", rows, shape[0]), ("column", columns, shape[1])):
        outside = (part < 0) | (part >= size)
        if outside.any():
            wrong = part[np.argmax(outside)]
            raise InvalidInputError(f"cells: there is no {name} {wrong}; give {name}s from 0 to {size - 1}.")
    return rows.astype(np.int64), columns.astype(np.int64)
