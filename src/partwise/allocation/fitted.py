"""What the allocation estimator can do once it is fitted: activations, likelihood of new samples, chains."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from sklearn.utils.validation import check_is_fitted

from partwise.allocation.inference.activations import expected_activations
from partwise.allocation.model import AllocationModel
from partwise.core.chains import ChainedEstimator, check_chains
from partwise.core.data import MISSING_REMEDY, CountMatrix
from partwise.core.estimator import FactorizationEstimator, check_array_is
from partwise.engines.base import Engine
from partwise.engines.resolve import resolve_engine
from partwise.errors import InvalidInputError
from partwise.likelihood.auto import STD_ERROR, auto
from partwise.likelihood.result import LogLikelihood
from partwise.storage.on_disk import spread

Floats = NDArray[np.float64]


class FittedAllocation(ChainedEstimator, FactorizationEstimator):
    """Base of the allocation estimator: all that needs only the fitted dictionary and the priors."""

    inference: str
    missing: str
    activation_concentration: Any
    length_shape: float

    length_rate_: float
    log_joint_draws_: Floats
    n_active_draws_: Floats
    evenness_draws_: Floats
    online_averages_: Floats

    def _data(
        self,
        X: Any,
        *,
        reset: bool,
        caller: str,
        allow_missing: bool = False,
        missing_remedy: str = MISSING_REMEDY,
    ) -> CountMatrix:
        name = f"{type(self).__name__}.{caller}"
        rows = spread(X, self._engine, caller=name, integers=True)
        data = CountMatrix.build(
            rows,
            caller=name,
            allow_missing=allow_missing,
            allow_all_zero=not reset,
            missing_remedy=missing_remedy,
        )
        self._check_columns(X, data, reset=reset)
        return data

    def _engine(self) -> Engine:
        return resolve_engine(self.engine, self.n_jobs)

    def _row_model(self) -> AllocationModel:
        """The priors of a sample, for a dictionary that is known."""
        return AllocationModel(
            self.n_features_in_,
            self.n_components_,
            1.0,
            self.activation_concentration,
            self.length_shape,
            self.length_rate_,
        )

    def transform(self, X: Any) -> Floats:
        """Posterior means of the activations h_nk L_n, given the dictionary.

        Parameters
        ----------
        X
            Counts as for `fit`, without missing cells.

        Returns
        -------
        ndarray
            Samples x components. By Gibbs sampling with one fixed stream for every row: the same row always gives the
            same bits, in any batch.
        """
        check_is_fitted(self, "components_")
        data = self._data(X, reset=False, caller="transform")
        with self._compiling():
            return expected_activations(data, self._row_model(), self.components_.T, self._engine())

    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """Fit the parts, and give the activations of the samples.

        Parameters
        ----------
        X
            Counts as for `fit`.
        y
            Ignored.

        Returns
        -------
        ndarray
            Samples x components, as `transform` finds them; with ``missing="impute"``, those of the fit itself, which
            knows what to make of missing cells.
        """
        found: Floats = self.fit(X).activations_ if self.missing == "impute" else super().fit_transform(X)
        return found

    def log_likelihood(self, X: Any, *, std_error: float = STD_ERROR, random_state: Any = 0) -> LogLikelihood:
        """Log p(x) of each sample given the dictionary, activations and length integrated out, with standard errors.

        Given its length a sample is one of a Gamma-Poisson model, whose likelihood `partwise.likelihood.auto` gives:
        exact where affordable, else with an error. Lengths have a distribution of their own here, log NB(L; a, b)
        instead of log NB(L; β_+, b).

        Parameters
        ----------
        X
            Counts as for `fit`, without missing cells.
        std_error
            Standard error of a sample's value that is good enough, in nats.
        random_state
            Seed: int, Generator or None.
        """
        check_is_fitted(self, "components_")
        data = self._data(X, reset=False, caller="score")
        model = self._row_model()
        beta, rate = model.activation_concentration, model.length_rate
        with self._compiling():
            dictionary = self.components_.T
            found = auto(data, dictionary, beta, rate, rng=random_state, std_error=std_error, engine=self._engine())
        totals = data.row_sums
        lengths = log_length(totals, model.length_shape, rate) - log_length(totals, float(beta.sum()), rate)
        return LogLikelihood(found.values + lengths, found.std_errors, found.ess)

    def score_samples(self, X: Any) -> Floats:
        """Log-likelihood of each sample, in nats, given the dictionary."""
        return self.log_likelihood(X).values

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of a sample, in nats; greater is better."""
        return float(self.score_samples(X).mean())

    def _chains(self) -> dict[str, Floats]:
        check_is_fitted(self, "components_")
        if not hasattr(self, "log_joint_draws_"):
            raise InvalidInputError(f"inference={self.inference!r} has no chains: use 'gibbs' or 'gibbs-partial'.")
        return {name: np.asarray(getattr(self, f"{name}_draws_")) for name in ("log_joint", "n_active", "evenness")}

    def _check_loaded(self) -> None:
        super()._check_loaded()
        shape = (self.n_components_, self.n_features_in_)
        check_array_is(self.components_, "components_", shape)
        if hasattr(self, "online_averages_"):
            check_array_is(self.online_averages_, "online_averages_", shape[::-1])
        if hasattr(self, "log_joint_draws_"):
            check_chains(self._chains())
        if not (isinstance(self.length_rate_, float) and 0 < self.length_rate_ < np.inf):
            raise ValueError("its length_rate_ is not a positive number")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.input_tags.allow_nan = self.missing == "impute"
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags


def log_length(totals: Floats, shape: float, rate: float) -> Floats:
    """Log probability of a sample's total: negative binomial, a Poisson total whose mean is Gamma(shape, rate)."""
    whole = gammaln(shape + totals) - gammaln(shape) - gammaln(totals + 1.0)
    return np.asarray(whole - shape * np.log1p(1.0 / rate) - totals * np.log1p(rate))
