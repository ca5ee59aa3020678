"""``EmpiricalBayesPoissonNMF``: Poisson factorization whose priors are learned from the data."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import check_is_fitted

from partwise.contract.batches import BatchModel
from partwise.contract.declaration import Candidate, Declaration
from partwise.contract.model_file import check_array_is
from partwise.contract.parameters import AT_LEAST_1, COMMON_CONSTRAINTS
from partwise.core.data import CountMatrix
from partwise.core.keys import RandomState, key_from
from partwise.core.stopping import small_change
from partwise.core.validation import refuse_far_from_counts
from partwise.empirical_bayes.inference.activations import expected_counts
from partwise.empirical_bayes.inference.component import ComponentSweeps
from partwise.empirical_bayes.inference.rates import posteriors
from partwise.empirical_bayes.inference.starts import FirstState
from partwise.empirical_bayes.inference.sweep import Problem, Settings, Sweeps, size_factors
from partwise.empirical_bayes.posterior import FactorPosterior, ScaledFit
from partwise.kernels.arrays import Floats, Integers
from partwise.passes.side import Side
from partwise.poisson.inference.state import Start, checked_start
from partwise.priors.base import RatePrior
from partwise.priors.families import FAMILIES, resolve_family

_ALGORITHMS: dict[str, type[Sweeps]] = {"sweep": Sweeps, "component": ComponentSweeps}
# Model files store priors, and families with options, as arrays and tuples.
_PRIOR = [
    StrOptions(set(FAMILIES)),
    HasMethods(["fit", "pack", "unpack"]),
    HasMethods(["posterior"]),
    np.ndarray,
    tuple,
]


@dataclass(eq=False, repr=False)
class EmpiricalBayesPoissonNMF(BatchModel):
    """Find nonnegative parts of counts with learned priors: h_nk ~ g_k, w_fk ~ g'_k, x_nf ~ Poisson(Σ h w).

    Each part has a prior for its activations and one for its dictionary column. The data choose both from a family
    (empirical Bayes). Entries with little evidence are shrunk, so too many parts do far less harm than with maximum
    likelihood. Any nonnegative data are accepted, sparse or dense. Missing cells (NaN, or a mask in a `Table`) are left
    out and never treated as zeros.

    Parameters
    ----------
    n_components
        Number of parts; with ``init="greedy"`` the largest number.
    activation_prior, dictionary_prior
        Family of the priors: ``"gamma"``, ``"point-gamma"``, ``"two-gamma"``, ``"exponential-mixture"``,
        ``"gamma-mixture"``, ``"nonparametric"``, or ``"flat"`` (maximum likelihood); or a family of your own; or a
        prior such as a `GammaMixture`, which is then kept as it is. (With more than one part, a point mass at 0 has no
        effect, because expected counts are never 0.)
    inference
        ``"sweep"``: refresh the allocations once per factor. ``"component"``: refresh them after each part, which takes
        longer for the same bound.
    init
        ``"poisson"``: maximum likelihood; ``"greedy"``: add parts while the bound rises; ``"random"``, ``"nndsvd"``, or
        a pair of arrays (activations, parts).
    size_factors
        Whether priors apply to activations relative to each sample's total (for samples of very unequal depth).
    background
        The same for features: priors of the dictionary apply relative to each feature's overall frequency.
    prune
        Whether parts with less than half a count are removed.
    max_iter
        Stop after this many sweeps.
    tol
        Stop when the bound grows by less than this many nats per count and sweep, twice. 0: run to ``max_iter``.
    active_threshold
        A part counts as active from this share of the expected counts on; None = min(0.01, 0.1 / n_components).
    random_state
        Seed of all random numbers: int, Generator, RandomState or None.
    n_jobs
        Number of threads; it does not change the result. None = 1, -1 = all cores.
    engine
        Where blocks of rows are processed; None = threads on this machine.
    progress
        None: a progress bar on a terminal; True: always; False: never.
    callbacks
        Functions called after each iteration with (iteration, state, trace); returning True stops the fit.
    checkpoint
        File (or `Checkpoint`) to which the running fit is written.
    resume
        Continue from ``checkpoint`` if that file exists; the result is that of an uninterrupted fit.

    Attributes
    ----------
    components_
        Posterior means, parts x features. Each part sums to 1, so activations are expected counts, unless a given prior
        sets the scale.
    geometric_components_
        exp(E[log w_fk]), on the same scale.
    n_components_, n_active_components_, active_components_
        Number of remaining parts; number and positions of those that explain a noticeable share of the data.
    elbo_
        The evidence lower bound, which is maximised, with log x! and all other constants.
    greedy_elbo_
        The bound with 1, 2, ... parts. The last is the one that did not help. Empty unless ``init="greedy"``.
    batch_names_, batch_factors_, batch_strength_
        As for `PoissonNMF`.
    mean_activations_
        Mean over the training samples of each part's activation.
    n_iter_, trace_, status_
        Sweeps, what was reached at each, and how the fit ended.
    n_features_in_, feature_names_in_
        Features of the training data.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import EmpiricalBayesPoissonNMF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.gamma(0.3, 10, (60, 3)) @ rng.gamma(0.3, 1, (3, 40)))
    >>> model = EmpiricalBayesPoissonNMF(8, init="greedy", random_state=0).fit(X)
    >>> model.n_components_
    3
    >>> model.dictionary_posterior().interval(0.9).shape  # ends of credible intervals
    (40, 3, 2)
    """

    declares: ClassVar[Declaration] = Declaration(
        data="nonnegative",
        batches=True,
        papers=("Wang, Z. Empirical Bayes Poisson matrix factorization.",),
        candidates=(
            Candidate("empirical-bayes-poisson", effort={"tol": 1e-4, "max_iter": 100}, complexity=50, cost=8),
        ),
        counts_parts_by="bound",
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        "max_iter": [AT_LEAST_1],
        "activation_prior": _PRIOR,
        "dictionary_prior": _PRIOR,
        "inference": [StrOptions(set(_ALGORITHMS))],
        "init": [StrOptions({"poisson", "greedy", "random", "nndsvd"}), tuple],
        "size_factors": ["boolean"],
        "background": ["boolean"],
        "prune": ["boolean"],
    }

    _: KW_ONLY
    activation_prior: Any = "exponential-mixture"
    dictionary_prior: Any = "exponential-mixture"
    inference: str = "sweep"
    init: Start = "poisson"
    size_factors: bool = False
    background: bool = False
    prune: bool = True
    max_iter: int = 1000
    tol: float = 1e-6

    geometric_components_: Floats = field(init=False)
    dictionary_counts_: Floats = field(init=False)
    dictionary_exposure_: Floats = field(init=False)
    background_: Floats = field(init=False)
    feature_shares_: Floats = field(init=False)
    size_unit_: float = field(init=False)
    activation_prior_numbers_: Floats = field(init=False)
    activation_prior_sizes_: Integers = field(init=False)
    dictionary_prior_numbers_: Floats = field(init=False)
    dictionary_prior_sizes_: Integers = field(init=False)
    elbo_: float = field(init=False)
    greedy_elbo_: Floats = field(init=False)
    mean_activations_: Floats = field(init=False)

    def _check_values(self, data: Any, *, integers: bool) -> None:
        refuse_far_from_counts(data.total, data.nnz)

    def _settings(self) -> Settings:
        return Settings(
            resolve_family(self.activation_prior, "activation_prior"),
            resolve_family(self.dictionary_prior, "dictionary_prior"),
            self.size_factors,
            self.background,
            self.prune,
        )

    def _fit(self, data: CountMatrix) -> None:
        engine, settings = self._engine(), self._settings()
        init = checked_start(self.init, data.shape, self.n_components) if isinstance(self.init, tuple) else self.init
        algorithm = _ALGORITHMS[self.inference](settings, FirstState(settings, self.n_components, init, engine), engine)
        state = self._run(algorithm, data, max_iter=self.max_iter, convergence=small_change(self.tol, data.total)).state
        problem = Problem.of(self._weighted(data), settings, state.n_components, engine)
        self.elbo_ = problem.elbo(state) + self._batch_bound()
        self.greedy_elbo_ = state.grown
        self._store(ScaledFit.of(problem, state, settings))

    def _store(self, fitted: ScaledFit) -> None:
        self._store_components(fitted.dictionary, fitted.component_counts)
        self.geometric_components_ = np.ascontiguousarray(fitted.geometric.T)
        self.dictionary_counts_, self.dictionary_exposure_ = fitted.dictionary_counts, fitted.dictionary_exposure
        self.background_, self.feature_shares_ = fitted.background, fitted.feature_shares
        self.size_unit_, self.mean_activations_ = fitted.size_unit, fitted.mean_activations
        self.activation_prior_numbers_, self.activation_prior_sizes_ = fitted.activation_priors
        self.dictionary_prior_numbers_, self.dictionary_prior_sizes_ = fitted.dictionary_priors

    @property
    def activation_priors_(self) -> list[RatePrior]:
        """The prior of each part's activations (relative to size factors, if they are used)."""
        check_is_fitted(self, "components_")
        family = resolve_family(self.activation_prior, "activation_prior")
        parts = np.split(self.activation_prior_numbers_, np.cumsum(self.activation_prior_sizes_)[:-1])
        return [family.unpack(numbers) for numbers in parts]

    @property
    def dictionary_priors_(self) -> list[RatePrior]:
        """The prior of each part's dictionary column (relative to the background, if it is used)."""
        check_is_fitted(self, "components_")
        family = resolve_family(self.dictionary_prior, "dictionary_prior")
        parts = np.split(self.dictionary_prior_numbers_, np.cumsum(self.dictionary_prior_sizes_)[:-1])
        return [family.unpack(numbers) for numbers in parts]

    def dictionary_posterior(self) -> FactorPosterior:
        """Variances, quantiles, credible intervals and draws of the dictionary (features x parts)."""
        check_is_fitted(self, "components_")
        counts, exposure = self.dictionary_counts_, self.dictionary_exposure_
        return FactorPosterior(self.components_.T, counts, exposure, self.dictionary_priors_, self.background_)

    def activation_posterior(self, X: Any) -> FactorPosterior:
        """The posterior of the activations of samples, for a fixed posterior of the dictionary and fixed priors.

        Parameters
        ----------
        X
            Data as for `fit`.

        Returns
        -------
        FactorPosterior
            Means, variances, quantiles, credible intervals and draws, samples x parts.
        """
        data = self.checked_data(X, caller="activation_posterior")
        with self._compiling():
            return self._posterior(data)

    def _posterior(self, data: CountMatrix) -> FactorPosterior:
        engine, sizes = self._engine(), np.ones(data.shape[0])
        exposure = Side(data, engine).exposure(np.ascontiguousarray(self.components_.T))
        if self.size_factors:
            sizes = size_factors(data, self.feature_shares_[:, None], engine) / self.size_unit_
            exposure = exposure * sizes[:, None]
        priors = self.activation_priors_
        counts = expected_counts(data, np.ascontiguousarray(self.geometric_components_.T), exposure, priors, engine)
        mean, _, _ = posteriors(counts, exposure, priors, engine)
        return FactorPosterior(mean * sizes[:, None], counts, exposure, priors, sizes)

    def _times(self, factors: Floats) -> Self:
        found = super()._times(factors)
        found.geometric_components_ = np.ascontiguousarray(self.geometric_components_ * factors)
        return found

    def _activations(self, data: CountMatrix) -> Floats:
        """Posterior means, with dictionary and priors fixed."""
        return self._posterior(data).mean

    def activation_errors(self, X: Any) -> Floats:
        """Posterior standard deviations of the activations, with dictionary and priors fixed.

        Parameters
        ----------
        X
            Data as for `fit`.

        Returns
        -------
        ndarray
            Samples x parts.
        """
        return np.asarray(np.sqrt(self.activation_posterior(X).variance))

    def activation_draws(self, X: Any, n_draws: int, random_state: RandomState) -> Floats | None:
        """Posterior draws of the activations."""
        return self.activation_posterior(X).sample(n_draws, random_state=key_from(random_state).seed)

    @property
    def objective(self) -> float:
        """The evidence lower bound."""
        return self.elbo_

    def _check_loaded(self) -> None:
        super()._check_loaded()
        shape = (self.n_components_, self.n_features_in_)
        check_array_is(self.geometric_components_, "geometric_components_", shape)
        check_array_is(self.dictionary_counts_, "dictionary_counts_", shape[::-1])
        check_array_is(self.dictionary_exposure_, "dictionary_exposure_", (len(self.dictionary_exposure_), shape[0]))
        if len(self.dictionary_exposure_) not in (1, shape[1]):
            raise ValueError("its dictionary_exposure_ has neither one row nor one for each feature")
        check_array_is(self.background_, "background_", shape[1:])
        check_array_is(self.feature_shares_, "feature_shares_", shape[1:])
        check_array_is(self.mean_activations_, "mean_activations_", shape[:1])
        if not all(isinstance(number, float) and np.isfinite(number) for number in (self.elbo_, self.size_unit_)):
            raise ValueError("its elbo_ or its size_unit_ is not a number")
        if len(self.activation_priors_) != shape[0] or len(self.dictionary_priors_) != shape[0]:
            raise ValueError("it does not have one prior for each part")
