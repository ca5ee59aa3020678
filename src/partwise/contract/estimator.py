"""The shell that all estimators share: checked input, the run, fitted attributes, new samples, and files."""

from __future__ import annotations

import copy
import os
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from partwise.contract import model_file
from partwise.contract.declaration import Candidate, Declaration
from partwise.contract.features import aligned, check_columns, feature_position, given_names, named_otherwise
from partwise.contract.heldout import HiddenCells, ThinnedCounts
from partwise.contract.lists import FeatureLists, best_features, cosines, list_scores, row_names
from partwise.contract.parts import HandledParts
from partwise.core.checkpoint import Checkpoint
from partwise.core.coerce import as_table
from partwise.core.data import MISSING_REMEDY, BinaryMatrix, CountMatrix, SparseData
from partwise.core.keys import Key, key_from
from partwise.core.progress import compiling_notice
from partwise.core.result import FitResult, Status, Trace
from partwise.core.run import Algorithm, run
from partwise.core.stopping import Rule
from partwise.engines.base import Engine
from partwise.engines.resolve import portable_engine, resolve_engine
from partwise.errors import InvalidInputError, TrainingDataWarning
from partwise.presence import PresencePrior
from partwise.storage.on_disk import spread

Floats = NDArray[np.float64]
Method = TypeVar("Method", bound=Callable[..., Any])

POSITIVE = Interval(Real, 0, None, closed="neither")
AT_LEAST_0 = Interval(Integral, 0, None, closed="left")
AT_LEAST_1 = Interval(Integral, 1, None, closed="left")

COMMON_CONSTRAINTS: dict[str, list[Any]] = {
    "n_components": [AT_LEAST_1],
    "max_iter": [AT_LEAST_0],
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
"""Constraints of parameters that most estimators have, in scikit-learn's vocabulary."""


def checks_parameters(method: Method) -> Method:
    """Let `fit` or `partial_fit` check the estimator's parameters first: scikit-learn's decorator, with types."""
    return cast(Method, _fit_context(prefer_skip_nested_validation=True)(method))


def _offers_batches(estimator: Any) -> bool:
    return bool(estimator._takes_batches())


@dataclass(eq=False, repr=False)
class FactorizationEstimator(HandledParts, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # bases without types
    """Base of all estimators: it validates data, runs an algorithm and stores the result.

    An estimator is a dataclass: its parameters are keyword-only fields, and its fitted attributes are fields with
    ``init=False`` whose names end in an underscore. Model files hold exactly these. A family declares itself in
    `declares` and implements `_fit` (run an algorithm, store the parts) and `_activations` (samples to activations).
    """

    declares: ClassVar[Declaration]
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

    components_: Floats = field(init=False)
    part_weights_: Floats = field(init=False)
    n_components_: int = field(init=False)
    n_active_components_: int = field(init=False)
    active_components_: NDArray[np.intp] = field(init=False)
    n_iter_: int = field(init=False)
    n_batches_: int = field(init=False)
    n_samples_seen_: int = field(init=False)
    training_fingerprint_: str = field(init=False)
    trace_: Trace = field(init=False)
    status_: Status = field(init=False)
    n_features_in_: int = field(init=False)
    feature_names_in_: NDArray[Any] = field(init=False)
    component_names_: NDArray[Any] = field(init=False)
    presence_prior_: Floats = field(init=False)

    # What a family implements

    @abstractmethod
    def _fit(self, data: Any) -> None:
        """Run an algorithm on checked data by `_run`, and store the parts by `_store_components`."""

    @abstractmethod
    def _activations(self, data: Any) -> Floats:
        """Activations of checked samples, given the fitted parts; each row on its own."""

    def _takes_batches(self) -> bool:
        """Whether `partial_fit` is offered; may raise AttributeError with a sentence that says what to change."""
        return False

    def _absorb(self, data: Any, n_batches: int, n_seen: int) -> None:
        """Take in a batch: the first if `n_batches` is 0, after `n_seen` samples (also those of `fit`)."""
        raise TypeError(f"{type(self).__name__} says that it takes batches, but does not implement _absorb.")

    def _goes_on(self) -> bool:
        """Whether `partial_fit` continues from what is fitted, rather than starting anew."""
        return hasattr(self, "components_")

    def _check_loaded(self) -> None:
        """Raise ``ValueError`` (or ``AttributeError``) if a model file does not hold what a fit leaves."""
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
        with self._compiling():
            self._fit(data)
        self.n_samples_seen_ = data.shape[0]
        if not data.by_rows:  # data on disk are not read once more for it
            self.training_fingerprint_ = data.fingerprint()
        return self

    @available_if(_offers_batches)  # type: ignore[untyped-decorator]  # of scikit-learn, which has no types
    @checks_parameters
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Take in a batch of samples; call it with batch after batch.

        After `fit`, it continues from the parts that were found where the algorithm can, and starts anew otherwise.

        Parameters
        ----------
        X
            Some samples, with the same features in every call.
        y
            Ignored.
        """
        begun = self._goes_on()
        if begun and self.n_components != self.n_components_:
            raise InvalidInputError(
                f"n_components is {self.n_components}, but there are {self.n_components_} parts already, which"
                " partial_fit goes on from: start with a new estimator."
            )
        data = self._data(X, reset=not begun, caller="partial_fit")
        n_batches = getattr(self, "n_batches_", 0) if begun else 0
        n_seen = self.n_samples_seen_ if begun else 0
        with self._compiling():
            self._absorb(data, n_batches, n_seen)
        self.n_batches_ = self.n_iter_ = n_batches + 1
        self.n_samples_seen_ = n_seen + data.shape[0]
        self.trace_ = Trace()
        self.status_ = Status(
            "stopped", f"Took in {self.n_samples_seen_} samples, the last by partial_fit; pass more to go on."
        )
        return self

    if not TYPE_CHECKING:  # a type checker would take any attribute for granted

        def __getattr__(self, name: str) -> Any:
            """Say why there is no `partial_fit`, where the model knows."""
            if name == "partial_fit":
                self._takes_batches()
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    def _say_what_is_empty(self, data: SparseData) -> None:
        """Warn about samples that tell nothing about their activations."""

    def was_fitted_to(self, data: SparseData) -> bool:
        """Whether checked data are those of the fit; False for data on disk, which are not read for it."""
        known = getattr(self, "training_fingerprint_", None)
        return known is not None and not data.by_rows and data.fingerprint() == known

    def _say_if_training(self, data: SparseData) -> None:
        """Warn if data that are scored are those of the fit."""
        if self.was_fitted_to(data):
            warnings.warn(
                "X is what this model was fitted to, so the score flatters it: score samples that it has not seen.",
                TrainingDataWarning,
                stacklevel=4,
            )

    def _run(
        self, algorithm: Algorithm[Any], data: Any, *, max_iter: int, convergence: Rule | None = None
    ) -> FitResult[Any]:
        """Run an algorithm as the parameters ask, drop what an earlier fit left, and store what every fit leaves."""
        checkpoint = self.checkpoint
        if self.resume and checkpoint is None:
            raise InvalidInputError("resume=True needs a file to go on from: give checkpoint.")
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
            description=f"{type(self).__name__}, {self.n_components} components",
        )
        self._forget()
        self.n_iter_, self.trace_, self.status_ = result.n_iter, result.trace, result.status
        if result.status.code == "max_iter" and convergence is not None:
            warnings.warn(result.status.message, ConvergenceWarning, stacklevel=5)
        return result

    def _store_components(self, dictionary: Floats, expected_counts: Floats) -> None:
        """Store the dictionary, the share of each part, and which parts hold at least ``active_threshold``."""
        self.components_ = np.ascontiguousarray(dictionary.T)
        self.n_components_ = int(dictionary.shape[1])
        total = float(expected_counts.sum())
        self.part_weights_ = np.asarray(
            expected_counts / total if total > 0 else np.zeros(self.n_components_), dtype=np.float64
        )
        self.active_components_ = np.flatnonzero(self.part_weights_ >= self._active_share())
        self.n_active_components_ = int(self.active_components_.size)

    def _active_share(self) -> float:
        """Share of the expected counts from which a part counts as active."""
        if self.active_threshold is None:
            return min(0.01, 0.1 / int(getattr(self, "n_components_", self.n_components)))
        return float(self.active_threshold)

    def _forget(self) -> None:
        """Drop what an earlier fit, or another kind of fit, has left."""
        kept = {"n_features_in_", "feature_names_in_"}
        for name in [name for name in vars(self) if name.endswith("_") and name not in kept]:
            delattr(self, name)

    @classmethod
    def from_components(
        cls,
        components: Any,
        *,
        feature_names: Any = None,
        component_names: Any = None,
        presence: Any = None,
        allowed: Any = None,
        forbidden: Any = (),
        always: Any = (),
        **parameters: Any,
    ) -> Self:
        """Build an estimator that counts as fitted, from given parts: `transform` refits activations to them.

        Parameters
        ----------
        components
            Components x features, nonnegative; kept on their own scale.
        feature_names
            Names of the features, checked against the data where these have names.
        component_names
            Names of the parts, which `get_feature_names_out` and the command's tables then show.
        presence
            Find out which parts are present in each sample: `transform` then gives posterior means in which parts may
            be absent, and `presence` probabilities and credible intervals. True: five parts are expected in a sample
            (half of them, where there are fewer than ten). Or a prior probability of presence, or one for each part.
        allowed, forbidden, always
            Names or positions of parts, with ``presence``: the only ones that may be present, those that may not, and
            those that are present in every sample.
        parameters
            Parameters of the estimator.
        """
        if not cls.declares.given_parts:
            raise InvalidInputError(f"{cls.__name__} cannot take given parts: use PoissonNMF or GammaPoissonNMF.")
        given = CountMatrix.build(components, integers=False, allow_missing=False, caller="from_components")
        n_components, n_features = given.shape
        model = cls(n_components, **parameters)
        model.n_features_in_ = n_features
        for attribute, names in given_names(feature_names, n_features, component_names, n_components).items():
            setattr(model, attribute, names)
        model.n_iter_, model.trace_, model.n_samples_seen_ = 0, Trace(), 0
        model.status_ = Status("converged", "The components were given; there is nothing to fit.")
        model._take_components(np.ascontiguousarray(given.to_scipy().toarray().T, dtype=np.float64))
        rules = {"allowed": allowed, "forbidden": forbidden, "always": always}
        if presence is not None and presence is not False:
            model.presence_prior_ = PresencePrior.of(presence, model.part_labels(), **rules).probability
        elif allowed is not None or len(forbidden) or len(always):
            raise InvalidInputError("allowed, forbidden and always are for presence: pass presence=True.")
        return model

    def _take_components(self, dictionary: Floats) -> None:
        """Store given parts, features x components, as if a fit had found them (`declares.given_parts`)."""
        self._store_components(dictionary, dictionary.sum(axis=0))

    # Data

    def checked_data(self, X: Any, *, caller: str, integers: bool | None = None) -> Any:
        """Check new samples for this fitted model.

        Parameters
        ----------
        X
            Data as for `fit`. Where both have names, features are matched by name: those that X lacks are missing,
            those that the model does not know are left out, and their order does not matter.
        caller
            What to name in messages.
        integers
            Whether only whole numbers are taken; None = as `transform` does.

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
            data = CountMatrix.build(
                spread(X, self._engine, caller=name, integers=integers),
                integers=integers,
                caller=name,
                allow_missing=takes_missing,
                allow_all_zero=not reset,
                missing_remedy=remedy,
            )
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

    def _compiling(self) -> AbstractContextManager[None]:
        return compiling_notice(self.progress)

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
            Samples x components. A row does not depend on other rows. Of a sample without counts nothing is known: it
            gets what the prior of the activations expects, or zeros where there is no prior, and a warning.
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
            Activations, samples x components.

        Returns
        -------
        ndarray
            Samples x features.
        """
        check_is_fitted(self, "components_")
        activations = check_array(X, dtype=np.float64)
        if activations.shape[1] != self.n_components_:
            raise InvalidInputError(
                f"X has {activations.shape[1]} columns, but there are {self.n_components_} components:"
                " pass what transform gave."
            )
        return self.expected(activations)

    def recommend(self, X: Any, n: int = 10, *, exclude_seen: bool = True) -> FeatureLists:
        """List the most likely features of each sample: those of the highest expected values.

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
            Positions, names and expected values (of bits: probabilities of a one), best first. Of a sample of which
            nothing is known, the features that are most frequent in the training data, with their shares.

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
        """List the features that come from the same parts as a feature does.

        Parameters
        ----------
        features
            A name, a position, or several of them.
        n
            Length of the lists.

        Returns
        -------
        FeatureLists
            The features whose profiles over parts (how much each part makes of them in the training data) have the
            highest cosines with that of each feature.
        """
        check_is_fitted(self, "components_")
        names = self.feature_labels()
        asked = [features] if isinstance(features, str | Integral) else list(features)
        chosen = np.array([feature_position(names, one) for one in asked], dtype=np.int64)
        itself = CountMatrix.build(np.arange(len(names)) == chosen[:, None], caller="similar_features")
        alike = cosines(self.part_weights()[:, None] * self.feature_importance(), chosen)
        found = best_features(lambda block: alike[block].copy(), itself, n, True, self._engine())
        return FeatureLists(*found, [names[f] for f in chosen], names)

    @abstractmethod
    def score(self, X: Any, y: Any = None) -> float:
        """Mean held-out log-likelihood of new samples, in nats per token or cell; greater is better."""

    @abstractmethod
    def held_out_log_likelihood(self, held_out: ThinnedCounts | HiddenCells) -> Floats:
        """Log-likelihood of each row's held-out data under this model's own noise, in nats.

        Parameters
        ----------
        held_out
            What was held out of the training data, to which this model was fitted.
        """

    # scikit-learn

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """An estimator with settings that have a name, such as ``"paper"``: those of the paper of the model.

        Parameters
        ----------
        name
            One of those that the class declares.
        changes
            Parameters that come before those of the preset.

        Examples
        --------
        >>> from partwise import BinaryNMF
        >>> BinaryNMF.preset("paper", n_components=20).beta_prior
        (1.0, 1.0)
        """
        known = cls.declares.presets
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InvalidInputError(f"{cls.__name__} has no preset {name!r}: {has}.")
        return cls(**{**known[name], **changes})

    @classmethod
    def candidates(cls, data: str) -> list[Candidate]:
        """Ways in which the class takes part in comparisons of a kind of data, ``"counts"`` or ``"bits"``."""
        return [replace(one, estimator=cls) for one in cls.declares.candidates if one.data == data]

    def check_parameters(self) -> None:
        """Raise ``ValueError`` if a parameter has a value that `fit` would refuse before it looks at data."""
        self._validate_params()

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the parts, the same as everywhere: those that they were given with, otherwise ``part k``.

        Parameters
        ----------
        input_features
            Not used; scikit-learn asks for it.
        """
        super().get_feature_names_out(input_features)  # checks, as scikit-learn does, what it is asked with
        return np.asarray(self.part_labels(), dtype=object)

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.input_tags.allow_nan = self._missing_rule("fit")[0]
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags

    def save(self, path: str | os.PathLike[str]) -> Self:
        """Write the fitted estimator to one safetensors file, whole or not at all; ``partwise.load`` reads it.

        Parameters
        ----------
        path
            The file, by custom ``NAME.partwise``.
        """
        check_is_fitted(self)
        model_file.save(self, path)
        return self
