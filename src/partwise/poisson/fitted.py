"""What a fitted `PoissonNMF` can do: activations with standard errors, and document completion."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from partwise.core.data import CountMatrix
from partwise.core.estimator import FactorizationEstimator, check_array_is
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.resolve import resolve_engine
from partwise.likelihood.completion import Completion, complete
from partwise.poisson.inference.activations import solve_activations, standard_errors
from partwise.storage.on_disk import spread

Floats = NDArray[np.float64]


class PoissonEstimator(FactorizationEstimator):
    """Base of estimators with x_nf ~ Poisson(Σ_k h_nk w_fk) and activations of maximum likelihood."""

    kkt_residual_: float
    mean_activations_: Floats
    n_samples_seen_: int
    online_allocations_: Floats
    online_exposure_: Floats

    def _data(self, X: Any, *, reset: bool, caller: str) -> CountMatrix:
        name = f"{type(self).__name__}.{caller}"
        rows = spread(X, self._engine, caller=name)
        data = CountMatrix.build(rows, integers=False, caller=name, allow_all_zero=not reset)
        self._check_columns(X, data, reset=reset)
        return data

    def _engine(self) -> Engine:
        return resolve_engine(self.engine, self.n_jobs)

    def transform(self, X: Any) -> Floats:
        """Maximum-likelihood activations of samples for the fitted parts.

        Parameters
        ----------
        X
            Data as for `fit`.

        Returns
        -------
        ndarray
            Samples x components: expected counts, where components sum to 1. A row does not depend on other rows.
        """
        check_is_fitted(self, "components_")
        data = self._data(X, reset=False, caller="transform")
        with self._compiling():
            return solve_activations(data, self.components_.T, self._engine())

    def activation_errors(self, X: Any) -> Floats:
        """Poisson standard errors of the activations that `transform` gives, the parts taken as known.

        Parameters
        ----------
        X
            Data as for `fit`.

        Returns
        -------
        ndarray
            Samples x components; infinite where a sample's observed cells cannot tell. For activations below one
            expected count, read it as the scale below which nothing would show.
        """
        check_is_fitted(self, "components_")
        data = self._data(X, reset=False, caller="activation_errors")
        engine, dictionary = self._engine(), self.components_.T
        with self._compiling():
            return standard_errors(data, solve_activations(data, dictionary, engine), dictionary, engine)

    def completion(self, X: Any, *, key: Key | None = None) -> Completion:
        """Document completion, row by row: half of each row's tokens are given, the others predicted.

        Parameters
        ----------
        X
            Data as for `fit`; best data that the model was not fitted to.
        key
            Key of the split; by default that of seed 0, so that scores of different models use the same split.
        """
        check_is_fitted(self, "components_")
        data = self._data(X, reset=False, caller="score")
        with self._compiling():
            return complete(data, key or Key(0), self.components_.T, solve_activations, self._engine())

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log probability, in nats, of a held-out token when half of each row's tokens are given.

        Never the likelihood of tokens that the activations were fitted to; greater is better. See `completion`.
        """
        return self.completion(X).per_token

    def _check_loaded(self) -> None:
        super()._check_loaded()
        check_array_is(self.components_, "components_", (self.n_components_, self.n_features_in_))
        check_array_is(self.mean_activations_, "mean_activations_", (self.n_components_,))
        if not isinstance(getattr(self, "kkt_residual_", 0.0), float):
            raise ValueError("its kkt_residual_ is not a number")
        if hasattr(self, "online_exposure_") or hasattr(self, "online_allocations_"):
            shape = (self.n_features_in_, self.n_components_)
            check_array_is(self.online_allocations_, "online_allocations_", shape)
            check_array_is(self.online_exposure_, "online_exposure_", shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags
