"""What estimators with gamma priors of activations share: posteriors of activations and marginal likelihoods."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partwise.contract.counts import CountModel
from partwise.contract.heldout import SMOOTHING
from partwise.contract.model_file import check_array_is
from partwise.core.data import CountMatrix
from partwise.core.keys import RandomState, key_from
from partwise.core.validation import refuse_far_from_counts
from partwise.errors import InvalidInputError
from partwise.gamma_poisson.inference.posterior import N_DRAWS, posterior_draws, posterior_mean
from partwise.kernels.arrays import Floats
from partwise.likelihood.auto import STD_ERROR, auto
from partwise.likelihood.problem import LogLikelihood


@dataclass(eq=False, repr=False)
class GammaActivations(CountModel):
    """Base class of the estimators with h_nk ~ Gamma(shape_k, rate_k) and x_nf ~ Poisson(Σ_k h_nk w_fk)."""

    shape_: Floats = field(init=False)
    rate_: Floats = field(init=False)

    def _check_values(self, data: Any, *, integers: bool) -> None:
        if not integers:
            refuse_far_from_counts(data.total, data.nnz)

    def _activations(self, data: CountMatrix) -> Floats:
        """Posterior means, accurate to about one per cent. A row's result does not depend on its position."""
        model = self.components_.T, self.shape_, self.rate_
        return posterior_mean(data, *model, self._engine(), variational=self._variational_means)

    @property
    def _variational_means(self) -> bool:
        """Whether means of variational posteriors are accurate enough."""
        return False

    def sample_posterior(self, X: Any, n_draws: int = 100, *, random_state: RandomState = 0) -> Floats:
        """Draw activations from their posterior, given the dictionary.

        Parameters
        ----------
        X
            Counts as for `fit`.
        n_draws
            Number of draws per sample, from successive sweeps of a Gibbs chain after a burn-in.
        random_state
            Seed: int, Generator or None.

        Returns
        -------
        ndarray
            Draws x samples x parts.
        """
        data = self.checked_data(X, caller="sample_posterior", integers=True)
        if n_draws < 1:
            raise InvalidInputError(f"n_draws must be at least 1, got {n_draws}.")
        key, model = key_from(random_state), (self.components_.T, self.shape_, self.rate_)
        with self._compiling():
            return posterior_draws(key, data, model, self._engine(), n_draws=n_draws)

    def activation_draws(self, X: Any, n_draws: int, random_state: RandomState) -> Floats | None:
        """Posterior draws of the activations."""
        return self.sample_posterior(X, n_draws, random_state=random_state)

    def activation_errors(self, X: Any) -> Floats:
        """Posterior standard deviations of the activations, given the dictionary, estimated from posterior draws.

        Parameters
        ----------
        X
            Counts as for `fit`.

        Returns
        -------
        ndarray
            Samples x parts.
        """
        if self.selects_parts:
            return self.presence(X).std
        return np.asarray(self.sample_posterior(X, N_DRAWS).std(axis=0))

    def log_likelihood(
        self, X: Any, *, std_error: float = STD_ERROR, random_state: RandomState = 0, background: Floats | None = None
    ) -> LogLikelihood:
        """Log-likelihood of each sample with activations integrated out: exact if affordable, else with standard error.

        Parameters
        ----------
        X
            Counts as for `fit`.
        std_error
            Target standard error of a sample's value, in nats.
        random_state
            Seed: int, Generator or None.
        background
            Share of each feature in a background that is mixed into every part; None = no background.
        """
        data = self.checked_data(X, caller="log_likelihood", integers=True)
        dictionary = self.components_.T
        if background is not None:  # mixed into every part, scaled by the part's sum
            dictionary = (1.0 - SMOOTHING) * dictionary + SMOOTHING * background[:, None] * dictionary.sum(axis=0)
        with self._compiling():
            prior = self.shape_, self.rate_
            return auto(data, dictionary, *prior, rng=random_state, std_error=std_error, engine=self._engine())

    def score_samples(self, X: Any) -> Floats:
        """Log-likelihood of each sample, in nats, with its activations integrated out."""
        return self.log_likelihood(X).values

    def _check_loaded(self) -> None:
        super()._check_loaded()
        shape = (self.n_components_, self.n_features_in_)
        arrays: dict[str, tuple[int, ...]] = {"shape_": shape[:1], "rate_": shape[:1]}
        if hasattr(self, "online_statistic_"):
            arrays["online_statistic_"] = shape[::-1]
        for name, expected in arrays.items():
            check_array_is(getattr(self, name), name, expected)
