"""What all estimators with gamma priors can do once they are fitted: activations, posterior draws, likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from partwise.core.data import CountMatrix
from partwise.core.estimator import FactorizationEstimator, check_array_is
from partwise.core.keys import Key, key_from
from partwise.core.validation import refuse_far_from_counts
from partwise.engines.base import Engine
from partwise.engines.resolve import resolve_engine
from partwise.errors import InvalidInputError
from partwise.gamma_poisson.inference.activations import posterior_draws, posterior_mean
from partwise.likelihood.auto import STD_ERROR, auto
from partwise.likelihood.result import LogLikelihood
from partwise.storage.on_disk import spread

Floats = NDArray[np.float64]


class GammaPoissonEstimator(FactorizationEstimator):
    """Base of the estimators with h_nk ~ Gamma(shape_k, rate_k) and x_nf ~ Poisson(Σ_k h_nk w_fk)."""

    shape_: Floats
    rate_: Floats

    def _data(self, X: Any, *, reset: bool, caller: str, integers: bool = True) -> CountMatrix:
        name = f"{type(self).__name__}.{caller}"
        rows = spread(X, self._engine, caller=name, integers=integers)
        data = CountMatrix.build(rows, integers=integers, caller=name, allow_all_zero=not reset)
        self._check_columns(X, data, reset=reset)
        if not integers:
            refuse_far_from_counts(data.total, data.nnz)
        return data

    def _engine(self) -> Engine:
        return resolve_engine(self.engine, self.n_jobs)

    def transform(self, X: Any) -> Floats:
        """Posterior means of the activations, given the dictionary.

        Parameters
        ----------
        X
            Counts as for `fit`.

        Returns
        -------
        ndarray
            Samples x components. By Gibbs sampling with one fixed stream for every row: the same row always gives the
            same bits, in any batch.
        """
        check_is_fitted(self, "components_")
        data = self._data(X, reset=False, caller="transform")
        with self._compiling():
            return posterior_mean(data, self.components_.T, self.shape_, self.rate_, self._engine())

    def sample_posterior(self, X: Any, n_draws: int = 100, *, random_state: Any = 0) -> Floats:
        """Draws of the activations from their posterior, given the dictionary.

        Parameters
        ----------
        X
            Counts as for `fit`.
        n_draws
            Draws of each sample, from successive sweeps of a Gibbs chain after a burn-in.
        random_state
            Seed: int, Generator or None.

        Returns
        -------
        ndarray
            Draws x samples x components.
        """
        check_is_fitted(self, "components_")
        if n_draws < 1:
            raise InvalidInputError(f"n_draws must be at least 1, got {n_draws}.")
        data = self._data(X, reset=False, caller="sample_posterior")
        key: Key = key_from(random_state)
        with self._compiling():
            return posterior_draws(
                key, data, self.components_.T, self.shape_, self.rate_, self._engine(), n_draws=n_draws
            )

    def log_likelihood(self, X: Any, *, std_error: float = STD_ERROR, random_state: Any = 0) -> LogLikelihood:
        """Log-likelihood of each sample, activations integrated out: exact where affordable, else with an error.

        Parameters
        ----------
        X
            Counts as for `fit`.
        std_error
            Standard error of a sample's value that is good enough, in nats.
        random_state
            Seed: int, Generator or None.
        """
        check_is_fitted(self, "components_")
        data = self._data(X, reset=False, caller="score")
        with self._compiling():
            model = self.components_.T, self.shape_, self.rate_
            return auto(data, *model, rng=random_state, std_error=std_error, engine=self._engine())

    def score_samples(self, X: Any) -> Floats:
        """Log-likelihood of each sample, in nats, with its activations integrated out."""
        return self.log_likelihood(X).values

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of a sample, in nats; greater is better."""
        return float(self.score_samples(X).mean())

    def _check_loaded(self) -> None:
        super()._check_loaded()
        shape = (self.n_components_, self.n_features_in_)
        arrays = {"components_": shape, "shape_": shape[:1], "rate_": shape[:1]}
        if hasattr(self, "online_statistic_"):
            arrays["online_statistic_"] = shape[::-1]
        for name, expected in arrays.items():
            check_array_is(getattr(self, name), name, expected)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags
