"""What a fitted `AllocationNMF` keeps, and what it computes for samples: activations and likelihoods."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from partwise.allocation.inference.marginal import log_length, log_marginal_likelihood
from partwise.allocation.inference.new_rows import expected_activations
from partwise.allocation.model import MANY_COMPONENTS, AllocationModel, Concentrations
from partwise.contract.counts import CountModel
from partwise.contract.heldout import SMOOTHING
from partwise.contract.model_file import check_array_is
from partwise.core.data import CountMatrix
from partwise.core.keys import RandomState, key_from
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.likelihood.auto import STD_ERROR, auto
from partwise.likelihood.problem import LogLikelihood

# Start value of an estimated concentration.
FIRST_CONCENTRATION = 0.1
# Concentration of the dictionary with many parts. If learned, it soon gets so small that tokens cannot change parts.
_OF_MANY = 0.01


@dataclass(eq=False, repr=False)
class AllocationSamples(CountModel):
    """The priors of an allocation model, given and fitted, and what follows from them for samples."""

    _: KW_ONLY
    dictionary_concentration: Any = "auto"
    activation_concentration: Any = "estimate"
    length_shape: float = 1.0
    length_rate: float | None = None
    seeds: Any = None
    fixed_parts: Any = None

    activations_: Floats = field(init=False)
    component_counts_: Floats = field(init=False)
    length_rate_: float = field(init=False)
    dictionary_concentration_: Floats = field(init=False)
    activation_concentration_: Floats = field(init=False)
    online_averages_: Floats = field(init=False)

    def _store_counts(self, model: AllocationModel, sample_counts: Any, feature_counts: Any) -> None:
        factors = model.expected_factors(sample_counts, feature_counts)
        self._store(*factors, np.asarray(feature_counts, dtype=np.float64).sum(axis=0))
        self._store_concentrations(model.concentrations)

    def _store_concentrations(self, learned: Concentrations) -> None:
        self.dictionary_concentration_, self.activation_concentration_ = learned

    def _store(self, activations: Floats | None, dictionary: Floats, component_counts: Floats) -> None:
        self._store_components(dictionary, component_counts)
        self.component_counts_ = component_counts
        if activations is not None:
            self.activations_ = np.asarray(activations)

    def _regroup(self, fitted: Any, membership: Floats, dictionary: Floats) -> None:
        """Sums of shares with a Dirichlet prior have a Dirichlet prior with the sums of the concentrations."""
        activations = fitted.kept_activations
        kept = activations is not None and bool(np.all(membership.sum(axis=1) == 1))
        self._store(activations @ membership if kept else None, dictionary, fitted.component_counts_ @ membership)
        self.length_rate_ = fitted.length_rate_
        self.dictionary_concentration_ = fitted.dictionary_concentration_
        self.activation_concentration_ = fitted.activation_concentration_ @ membership
        if not isinstance(self.activation_concentration, str) and np.ndim(self.activation_concentration):
            self.activation_concentration = self.activation_concentration_

    def _row_model(self) -> AllocationModel:
        """The priors of a sample, for a known dictionary."""
        priors = 1.0, self.activation_concentration_, self.length_shape, self.length_rate_
        return AllocationModel(self.n_features_in_, self.n_components_, *priors)

    def _activations(self, data: CountMatrix) -> Floats:
        """Approximate posterior means of h_nk L_n, by collapsed variational Bayes."""
        return expected_activations(data, self._row_model(), self.components_.T, self._engine())

    def log_likelihood(
        self, X: Any, *, std_error: float = STD_ERROR, random_state: RandomState = 0, background: Floats | None = None
    ) -> LogLikelihood:
        """Log p(x) of each sample given the dictionary, activations and length integrated out, with standard errors.

        Given its length, a sample follows a Gamma-Poisson model, whose likelihood comes from
        `partwise.likelihood.auto`: exact if affordable, else with a standard error. Lengths have their own distribution
        here, log NB(L; a, b) instead of log NB(L; β_+, b).

        Parameters
        ----------
        X
            Counts as for `fit`, without missing cells.
        std_error
            Target standard error of a sample's value, in nats.
        random_state
            Seed: int, Generator or None.
        background
            Share of each feature in a background that is mixed into every part; None = no background.
        """
        data = self.checked_data(X, caller="log_likelihood")
        model = self._row_model()
        beta, rate = model.activation_concentration, model.length_rate
        dictionary = self.components_.T
        if background is not None:
            dictionary = (1.0 - SMOOTHING) * dictionary + SMOOTHING * background[:, None]
        with self._compiling():
            found = auto(data, dictionary, beta, rate, rng=random_state, std_error=std_error, engine=self._engine())
        totals = data.row_sums
        lengths = log_length(totals, model.length_shape, rate) - log_length(totals, float(beta.sum()), rate)
        return LogLikelihood(found.values + lengths, found.std_errors, found.ess)

    def _concentrations(self) -> dict[str, Any]:
        """Both as they are given, or ``"estimate"``."""
        dictionary = self.dictionary_concentration
        if isinstance(dictionary, str) and dictionary == "auto":
            dictionary = "estimate" if int(self.n_components) < MANY_COMPONENTS else _OF_MANY
        return {"dictionary_concentration": dictionary, "activation_concentration": self.activation_concentration}

    def score_samples(self, X: Any) -> Floats:
        """Log-likelihood of each sample, in nats, given the dictionary."""
        return self.log_likelihood(X).values

    def log_evidence(self, X: Any, *, random_state: RandomState = 0, **effort: Any) -> tuple[float, float]:
        """Log p(X) under the parameters of this estimator, with everything integrated out, and its standard error.

        Parameters
        ----------
        X
            Counts, samples x features. The estimator need not be fitted: concentrations that a fit would learn are then
            0.1.
        random_state
            Seed: int, Generator or None.
        effort
            Arguments of `partwise.allocation.log_marginal_likelihood`.
        """
        if self.seeds is not None or self.fixed_parts is not None:
            raise InvalidInputError("log_evidence does not support seeds and fixed_parts: leave them out.")
        # Estimated concentrations are those of a fit, or the start values of one.
        given = self._concentrations()
        learned = {
            name: getattr(self, f"{name}_", FIRST_CONCENTRATION) for name, at in given.items() if isinstance(at, str)
        }
        found = log_marginal_likelihood(
            X,
            self.n_components,
            **given | learned,
            length_shape=self.length_shape,
            length_rate=self.length_rate,
            rng=key_from(random_state).seed,
            **effort,
        )
        return found.total, found.total_std_error

    def _check_loaded(self) -> None:
        super()._check_loaded()
        for name, size in (
            ("dictionary_concentration_", self.n_features_in_),
            ("activation_concentration_", self.n_components_),
        ):
            check_array_is(getattr(self, name), name, (size,))
        if hasattr(self, "online_averages_"):
            check_array_is(self.online_averages_, "online_averages_", (self.n_features_in_, self.n_components_))
        if not (isinstance(self.length_rate_, float) and 0 < self.length_rate_ < np.inf):
            raise ValueError("its length_rate_ is not a positive number")
