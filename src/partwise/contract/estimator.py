"""The base class of all estimators: input checks, the run, fitted attributes, and new samples."""

import os
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from partwise.contract import model_file
from partwise.contract.features import aligned, check_columns, named_otherwise
from partwise.contract.given_parts import FromGivenParts
from partwise.contract.heldout import HiddenCells, ThinnedCounts
from partwise.contract.lists import ListsFeatures
from partwise.contract.parameters import COMMON_CONSTRAINTS, checks_parameters
from partwise.contract.partial_fit import PartialFit
from partwise.contract.parts import HandledParts
from partwise.contract.scikit_learn import ScikitLearnModel
from partwise.core.blas import one_blas_thread
from partwise.core.checkpoint import Checkpoint
from partwise.core.coerce import as_table, is_anndata, is_chunked
from partwise.core.data import MISSING_REMEDY, BinaryMatrix, CountMatrix, SparseData
from partwise.core.keys import Key, key_from
from partwise.core.progress import compiling_notice
from partwise.core.result import FitResult
from partwise.core.run import Algorithm, run
from partwise.core.stopping import Rule
from partwise.engines.base import Engine
from partwise.engines.local import resolve_engine
from partwise.errors import InvalidInputError, TrainingDataWarning
from partwise.kernels.arrays import Floats

_PARTS_ALWAYS_ALLOWED = 1_000


@dataclass(eq=False, repr=False)
class FactorizationEstimator(PartialFit, FromGivenParts, ListsFeatures, HandledParts, ScikitLearnModel):
    """Base class of all estimators: it checks data, runs an algorithm and stores the result.

    An estimator is a dataclass: its parameters are keyword-only fields, and its fitted attributes are fields with
    ``init=False`` whose names end in an underscore. Model files hold exactly these. A family declares itself in
    `declares` and implements `_fit` (run an algorithm, store the parts) and `_activations` (samples to activations).
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = COMMON_CONSTRAINTS

    n_components: int = 10
    _: KW_ONLY
    active_threshold: float | None = None
    random_state: Any = None
    n_jobs: int | None = None
    engine: Any = None
    progress: bool | None = None
    callbacks: Sequence[Any] = ()
    checkpoint: Any = None
    resume: bool = False

    # What a family implements

    @abstractmethod
    def _fit(self, data: Any) -> None:
        """Run an algorithm on checked data by `_run`, and store the parts by `_store_components`."""

    @abstractmethod
    def _activations(self, data: Any) -> Floats:
        """Activations of checked samples, given the fitted parts. Rows are independent of each other."""

    def _check_loaded(self) -> None:
        """Raise ``ValueError`` (or ``AttributeError``) if a loaded model file lacks something that a fit stores."""
        model_file.check_common(self)

    @property
    def _needs_integers(self) -> bool:
        """Whether `fit` and `transform` take whole numbers only."""
        return self.declares.data == "counts"

    def _missing_rule(self, caller: str) -> tuple[bool, str]:
        """Whether a method (`fit`, `transform`, ...) takes missing cells, and the remedy if not."""
        return self.declares.missing == "yes", MISSING_REMEDY

    # Fitting

    @checks_parameters
    def fit(self, X: Any, y: Any = None, *, layer: str | None = None) -> Self:
        """Fit the parts.

        Parameters
        ----------
        X
            Data, samples x features: array, sparse matrix, frame, AnnData or `Table`. NaN is missing.
        y
            Ignored.
        layer
            Layer of AnnData to take instead of its ``X``.
        """
        X = X if layer is None else as_table(X, layer=layer)
        data = self._data(X, reset=True, caller="fit")
        n_cells = data.shape[0] * data.shape[1]
        if self.n_components > max(_PARTS_ALWAYS_ALLOWED, n_cells):
            raise InvalidInputError(
                f"n_components={self.n_components} is more than the number of cells of X ({n_cells}): fit fewer."
            )
        with self._compiling():
            self._fit(data)
        if self.status_.message.startswith("Did not converge"):  # the status of a sampler now names tentative parts
            warnings.warn(self.status_.message, ConvergenceWarning, stacklevel=3)
        self.n_samples_seen_ = data.shape[0]
        if not data.by_rows:  # do not read data on disk again for this
            self.training_fingerprint_ = data.fingerprint()
        return self

    def _say_what_is_empty(self, data: SparseData) -> None:
        """Warn about samples without information about their activations."""

    def was_fitted_to(self, data: SparseData) -> bool:
        """Whether checked data are the training data. False for data on disk, which are not read again to find out."""
        known = getattr(self, "training_fingerprint_", None)
        return known is not None and not data.by_rows and data.fingerprint() == known

    def _say_if_training(self, data: SparseData) -> None:
        """Warn if scored data are the training data."""
        if self.was_fitted_to(data):
            told = "X is what this model was fitted to, so the score flatters it: score samples that it has not seen."
            warnings.warn(told, TrainingDataWarning, stacklevel=4)

    def _run(
        self, algorithm: Algorithm[Any], data: Any, *, max_iter: int, convergence: Rule | None = None
    ) -> FitResult[Any]:
        """Run an algorithm with this estimator's parameters, and replace the results of any earlier fit."""
        checkpoint = self.checkpoint
        if self.resume and checkpoint is None:
            raise InvalidInputError("resume=True needs a checkpoint to continue from: pass checkpoint=.")
        if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint(checkpoint)
        stored = checkpoint.path if self.resume and checkpoint is not None and Path(checkpoint.path).exists() else None
        result = run(
            algorithm,
            data,
            key=self._key() if stored is None or self.random_state is not None else None,
            max_iter=max_iter,
            convergence=convergence,
            callbacks=self.callbacks,
            progress=self.progress,
            checkpoint=checkpoint,
            resume_from=stored,
            description=f"{type(self).__name__}, {self.n_components} parts",
        )
        self._forget()
        self.n_iter_, self.trace_, self.status_ = result.n_iter, result.trace, result.status
        return result

    def _store_components(self, dictionary: Floats, expected_counts: Floats) -> None:
        """Store the dictionary, the share of each part, and which parts hold at least ``active_threshold``."""
        self.components_ = np.ascontiguousarray(dictionary.T)
        self.n_components_ = int(dictionary.shape[1])
        total = float(expected_counts.sum())
        shares = expected_counts / total if total > 0 else np.zeros(self.n_components_)
        self.part_weights_ = np.asarray(shares, dtype=np.float64)
        self.active_components_ = np.flatnonzero(self.part_weights_ >= self._active_share())
        self.n_active_components_ = int(self.active_components_.size)

    def _active_share(self) -> float:
        """A part counts as active from this share of the expected counts on."""
        if self.active_threshold is None:
            return min(0.01, 0.1 / int(getattr(self, "n_components_", self.n_components)))
        return float(self.active_threshold)

    def _forget(self) -> None:
        """Delete the results of an earlier fit, or of another kind of fit."""
        kept = {"n_features_in_", "feature_names_in_"}
        for name in [name for name in vars(self) if name.endswith("_") and name not in kept]:
            delattr(self, name)

    # Data

    def checked_data(self, X: Any, *, caller: str, integers: bool | None = None) -> Any:
        """Check new samples for this fitted model.

        Parameters
        ----------
        X
            Data as for `fit`. If both have feature names, features are matched by name, in any order. Features that X
            lacks count as missing, and features that the model does not have are left out.
        caller
            The method to name in messages.
        integers
            Whether only whole numbers are accepted; None = as in `transform`.

        Returns
        -------
        CountMatrix or BinaryMatrix
            Checked data.
        """
        check_is_fitted(self, "components_")
        return self._data(X, reset=False, caller=caller, integers=integers)

    def _data(self, X: Any, *, reset: bool, caller: str, integers: bool | None = None) -> Any:
        name = f"{type(self).__name__}.{caller}"
        data: BinaryMatrix | CountMatrix
        takes_missing, remedy = self._missing_rule(caller)
        if self.declares.data == "bits":
            data = BinaryMatrix.build(X, caller=name)
        else:
            integers = self._needs_integers if integers is None else integers
            if is_chunked(X) or is_anndata(X):
                from partwise.storage.on_disk import spread

                X = spread(X, self._engine, caller=name, integers=integers)
            allowed = {"allow_missing": takes_missing, "allow_all_zero": not reset}
            data = CountMatrix.build(X, integers=integers, caller=name, missing_remedy=remedy, **allowed)
        if not reset and caller != "partial_fit" and named_otherwise(self, X, data):
            data = aligned(self, data, takes_missing=takes_missing)
        else:
            check_columns(self, X, data, reset=reset)
        self._check_values(data, integers=bool(integers))
        return data

    def _check_values(self, data: Any, *, integers: bool) -> None:
        """Refuse values that the model cannot use."""

    def _engine(self) -> Engine:
        return resolve_engine(self.engine, self.n_jobs)

    def _key(self) -> Key:
        return key_from(self.random_state)

    @contextmanager
    def _compiling(self) -> Iterator[None]:
        """In this context kernels report long compilations and BLAS uses one thread, also before and after the run."""
        with compiling_notice(self.progress), one_blas_thread():
            yield

    # New samples

    def transform(self, X: Any) -> Floats:
        """Find the activations of samples, given the fitted parts.

        Parameters
        ----------
        X
            Data as for `fit`. Features that have names are matched by name; those that X lacks count as missing.

        Returns
        -------
        ndarray
            Samples x parts. A row does not depend on other rows. A sample without counts gets a warning and the prior
            mean of the activations, or zeros if the model has no prior.
        """
        data = self.checked_data(X, caller="transform")
        self._say_what_is_empty(data)
        with self._compiling():
            return self._refit(data)

    def _refit(self, data: Any) -> Floats:
        """Activations of checked samples, as `transform` gives them."""
        return self._activations(data)

    def inverse_transform(self, X: Any) -> Floats:
        """Compute the expected data of given activations.

        Parameters
        ----------
        X
            Activations, samples x parts.

        Returns
        -------
        ndarray
            Samples x features.
        """
        check_is_fitted(self, "components_")
        activations = check_array(X, dtype=np.float64)
        if activations.shape[1] != self.n_components_:
            raise InvalidInputError(
                f"X has {activations.shape[1]} columns, but there are {self.n_components_} parts:"
                " pass what transform gave."
            )
        return self.expected(activations)

    @abstractmethod
    def score(self, X: Any, y: Any = None) -> float:
        """Mean held-out log-likelihood of new samples, in nats per token or cell; higher is better."""

    @abstractmethod
    def held_out_log_likelihood(self, held_out: ThinnedCounts | HiddenCells) -> Floats:
        """Log-likelihood of each row's held-out data under this model's noise, in nats.

        Parameters
        ----------
        held_out
            What was held out of the training data of this model.
        """

    def save(self, path: str | os.PathLike[str]) -> Self:
        """Write the fitted estimator to one safetensors file, completely or not at all; ``partwise.load`` reads it.

        Parameters
        ----------
        path
            The file, by custom ``NAME.partwise``.
        """
        check_is_fitted(self)
        model_file.save(self, path)
        return self
