"""What all estimators share: checked input, the run, fitted attributes, and files."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from partwise.core.checkpoint import Checkpoint
from partwise.core.convergence import Rule
from partwise.core.data import SparseData
from partwise.core.keys import Key, key_from
from partwise.core.persistence import save
from partwise.core.progress import compiling_notice
from partwise.core.result import FitResult, Status, Trace
from partwise.core.run import Algorithm, run
from partwise.errors import InvalidInputError

Floats = NDArray[np.float64]
Method = TypeVar("Method", bound=Callable[..., Any])

COMMON_CONSTRAINTS: dict[str, list[Any]] = {
    "n_components": [Interval(Integral, 1, None, closed="left")],
    "max_iter": [Interval(Integral, 0, None, closed="left")],
    "tol": [Interval(Real, 0, None, closed="left")],
    "active_threshold": [Interval(Real, 0, 1, closed="both"), None],
    "random_state": ["random_state", np.random.Generator],
    "n_jobs": [Integral, None],
    "engine": [str, HasMethods(["map_reduce", "for_each"]), HasMethods(["submit"]), HasMethods(["scale"]), None],
    "progress": ["boolean", None],
    "callbacks": [tuple, list],
    "checkpoint": [str, os.PathLike, Checkpoint, None],
    "resume": ["boolean"],
}
"""Constraints of the parameters that every estimator has, in scikit-learn's vocabulary."""


def checks_parameters(method: Method) -> Method:
    """Let `fit` or `partial_fit` check the estimator's parameters first: scikit-learn's decorator, with types."""
    return cast(Method, _fit_context(prefer_skip_nested_validation=True)(method))


class FactorizationEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # bases without types
    """Base of all estimators: a thin shell that validates, runs an algorithm and stores what came out."""

    n_components: int
    max_iter: int
    tol: float
    active_threshold: float | None
    random_state: Any
    n_jobs: int | None
    engine: Any
    progress: bool | None
    callbacks: Sequence[Any]
    checkpoint: str | os.PathLike[str] | Checkpoint | None
    resume: bool

    components_: Floats
    n_components_: int
    n_active_components_: int
    active_components_: NDArray[np.intp]
    n_iter_: int
    trace_: Trace
    status_: Status
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    component_names_: NDArray[Any]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = COMMON_CONSTRAINTS

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the parts: those that they were given with, otherwise the estimator's name and a number.

        Parameters
        ----------
        input_features
            Not used; scikit-learn asks for it.
        """
        names: NDArray[Any] | None = getattr(self, "component_names_", None)
        return super().get_feature_names_out(input_features) if names is None else names.copy()

    def __sklearn_clone__(self) -> Self:
        """An unfitted estimator with the same parameters; a cluster is not copied, but shared."""
        alone = copy.copy(self)
        alone.engine = None
        cloned: Self = super(FactorizationEstimator, alone).__sklearn_clone__()
        cloned.engine = self.engine
        return cloned

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled, and copied: of a cluster only its address, by which another process finds it."""
        state = dict(super().__getstate__())
        if "engine" in state:
            state["engine"] = portable_engine(state["engine"])
        return state

    def _key(self) -> Key:
        return key_from(self.random_state)

    def _compiling(self) -> AbstractContextManager[None]:
        return compiling_notice(self.progress)

    def _check_columns(self, X: Any, data: SparseData, *, reset: bool) -> None:
        """Remember the features of the training data, or refuse data that have others."""
        labels = data.column_labels
        if reset:
            self.__dict__.pop("component_names_", None)
        if labels is None or hasattr(X, "columns"):
            names, counts = np.unique([] if labels is None else labels, return_counts=True)
            if np.any(counts > 1):
                name = str(names[np.argmax(counts)])
                raise InvalidInputError(
                    f"{int(counts.max())} columns of X are called {name!r}: give each feature a name of its own."
                )
            # Arrays and frames: as every estimator of scikit-learn does. Tables and AnnData it does not know.
            validate_data(self, X, reset=reset, skip_check_array=True)
            return
        n_features = data.shape[1]
        if reset:
            self.n_features_in_ = n_features
            self.feature_names_in_ = labels.astype(object)
            return
        if n_features != self.n_features_in_:
            raise InvalidInputError(
                f"X has {n_features} features, but {type(self).__name__} is expecting {self.n_features_in_} features"
                " as input."
            )
        known = getattr(self, "feature_names_in_", None)
        if known is not None and not np.array_equal(labels, known):
            at = int(np.argmax(labels.astype(object) != known))
            raise InvalidInputError(
                f"Column {at} of X is {str(labels[at])!r}, but {type(self).__name__} was fitted with {known[at]!r}"
                " there: bring the columns into the order of feature_names_in_."
            )

    def _remember_names(self, feature_names: Any, component_names: Any) -> None:
        """Keep the names of features and parts that come with given components."""
        given = (
            ("feature_names", "feature_names_in_", feature_names, self.n_features_in_, "features"),
            ("component_names", "component_names_", component_names, self.n_components, "components"),
        )
        for argument, attribute, names, wanted, what in given:
            if names is not None:
                array = np.asarray([str(name) for name in names], dtype=object)
                if array.shape != (wanted,):
                    raise InvalidInputError(f"{argument} has {array.size} names for {wanted} {what}.")
                setattr(self, attribute, array)

    def _run(
        self,
        algorithm: Algorithm[Any],
        data: Any,
        *,
        convergence: Rule | None,
        max_iter: int | None = None,
        key: Key | None = None,
        initial_state: Any = None,
    ) -> FitResult[Any]:
        """Run an algorithm as the parameters ask, and store what every fit leaves."""
        checkpoint = self.checkpoint
        if self.resume and checkpoint is None:
            raise InvalidInputError("resume=True needs a file to go on from: give checkpoint.")
        if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint(checkpoint)
        stored = checkpoint.path if self.resume and checkpoint is not None and Path(checkpoint.path).exists() else None
        if key is None and (stored is None or self.random_state is not None):
            key = self._key()
        result = run(
            algorithm,
            data,
            key=key,
            max_iter=self.max_iter if max_iter is None else max_iter,
            convergence=convergence,
            callbacks=self.callbacks,
            progress=self.progress,
            checkpoint=checkpoint,
            resume_from=stored,
            initial_state=initial_state,
            description=f"{type(self).__name__}, {self.n_components} components",
        )
        self.n_iter_, self.trace_, self.status_ = result.n_iter, result.trace, result.status
        if result.status.code == "max_iter" and convergence is not None and self.tol > 0:
            warnings.warn(result.status.message, ConvergenceWarning, stacklevel=3)
        return result

    def _store_components(self, dictionary: Floats, expected_counts: Floats) -> None:
        """Store the dictionary, and which components hold at least ``active_threshold`` of the expected counts."""
        self.components_ = np.ascontiguousarray(dictionary.T)
        self.n_components_ = int(dictionary.shape[1])
        threshold = self.active_threshold
        if threshold is None:
            threshold = min(0.01, 0.1 / self.n_components_)
        total = float(expected_counts.sum())
        share = expected_counts / total if total > 0 else np.zeros_like(expected_counts)
        self.active_components_ = np.flatnonzero(share >= threshold)
        self.n_active_components_ = int(self.active_components_.size)

    def _forget(self) -> None:
        """Drop what another kind of fit may have left."""
        kept = {"n_features_in_", "feature_names_in_"}
        for name in [name for name in vars(self) if name.endswith("_") and name not in kept]:
            delattr(self, name)

    def _check_goes_on(self) -> None:
        """Refuse to go on from parts of another number than is asked for."""
        if self.n_components != self.n_components_:
            raise InvalidInputError(
                f"n_components is {self.n_components}, but there are {self.n_components_} parts already, which"
                " partial_fit goes on from: start with a new estimator."
            )

    def _check_loaded(self) -> None:
        """Raise ``ValueError`` (or ``AttributeError``) if what a model file held is not what a fit leaves."""
        shape = (self.n_components_, self.n_features_in_)
        numbers = (*shape, self.n_iter_, self.n_active_components_, getattr(self, "n_samples_seen_", 0))
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError(f"its numbers of components, features, iterations and samples are {numbers}")
        check_array_is(self.components_, "components_", shape, signed=True)
        active = self.active_components_
        if active.dtype.kind != "i" or active.shape != (self.n_active_components_,):
            raise ValueError("its active components are not a list of their positions")
        if not np.all((active >= 0) & (active < self.n_components_)):
            raise ValueError("its active components are beyond their number")
        if hasattr(self, "feature_names_in_") and self.feature_names_in_.shape != (self.n_features_in_,):
            raise ValueError(f"it has {self.feature_names_in_.size} names for {self.n_features_in_} features")
        if hasattr(self, "component_names_") and self.component_names_.shape != (self.n_components_,):
            raise ValueError(f"it has {self.component_names_.size} names for {self.n_components_} components")
        if not isinstance(self.trace_, Trace) or not isinstance(self.status_, Status):
            raise ValueError("its trace or its status is of another kind")

    def inverse_transform(self, X: Any) -> Floats:
        """Expected data of given activations.

        Parameters
        ----------
        X
            Activations, samples x components.

        Returns
        -------
        ndarray
            Samples x features.
        """
        from sklearn.utils import check_array

        check_is_fitted(self, "components_")
        activations = check_array(X, dtype=np.float64)
        if activations.shape[1] != self.n_components_:
            raise InvalidInputError(
                f"X has {activations.shape[1]} columns, but there are {self.n_components_} components:"
                " pass what transform gave."
            )
        expected: Floats = activations @ self.components_
        return expected

    def save(self, path: str | os.PathLike[str]) -> Self:
        """Write the fitted estimator to one safetensors file, whole or not at all; ``partwise.load`` reads it.

        Parameters
        ----------
        path
            The file, by custom ``NAME.partwise``.
        """
        check_is_fitted(self)
        save(self, path)
        return self


def portable_engine(engine: Any) -> Any:
    """What another process can make of an engine.

    Parameters
    ----------
    engine
        The parameter of an estimator.

    Returns
    -------
    engine
        The address of the scheduler for a Dask client, a cluster, or an engine on one; None if only this process can
        reach it. Anything else as it is.

    Examples
    --------
    >>> portable_engine("dask")
    'dask'
    """
    client = getattr(engine, "client", engine)
    if isinstance(engine, str) or not (hasattr(client, "scheduler_info") or hasattr(client, "scheduler_address")):
        return engine
    address = getattr(client, "scheduler_address", None) or getattr(client.scheduler, "address", None)
    return address if address and not address.startswith("inproc://") else None


def check_array_is(array: Any, name: str, shape: tuple[int, ...], *, signed: bool = False) -> None:
    """Raise ``ValueError`` unless it is a float64 array of this shape, finite and (if not ``signed``) nonnegative."""
    if not isinstance(array, np.ndarray) or array.dtype != np.float64 or array.shape != shape:
        raise ValueError(f"its {name} is not an array of float64 of shape {shape}")
    if not np.all(np.isfinite(array)) or (np.any(array < 0) and not signed):
        raise ValueError(f"its {name} holds numbers that are negative or not finite")
