"""``BetaGammaPFA``: beta-Gamma Poisson factor analysis, which switches off the topics that it does not need."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval

from partwise.core.estimator import COMMON_CONSTRAINTS, checks_parameters
from partwise.core.result import Status
from partwise.gamma_poisson.fitted import GammaPoissonEstimator
from partwise.gamma_poisson.inference.beta_gamma_gibbs import BetaGammaGibbs, BetaGammaState

_POSITIVE = [Interval(Real, 0, None, closed="neither")]


class BetaGammaPFA(GammaPoissonEstimator):
    """Find parts of counts by beta-Gamma Poisson factor analysis (Zhou et al. 2012), by Gibbs sampling.

    φ_k ~ Dirichlet(dictionary_concentration); h_nk ~ Gamma(shape, scale p_k / (1 - p_k)); p_k ~ Beta(κ ε, κ (1 - ε));
    x_nf ~ Poisson(Σ_k h_nk φ_fk). A part that is not needed has its p_k go to 0. The fitted dictionary and p are means
    over the kept draws of one chain, and likelihoods are those of this point estimate.

    Parameters
    ----------
    n_components
        Most parts.
    dictionary_concentration
        η, concentration of the Dirichlet prior of parts.
    shape
        r, shape of the gamma prior of activations.
    concentration
        κ, concentration of the beta prior of p_k.
    base_probability
        ε, its mean; None = 1 / n_components.
    n_draws, burn_in
        Sweeps that are kept, and that are thrown away before.
    active_threshold
        Share of the counts from which a component counts as active; None = min(0.01, 0.1 / n_components).
    random_state
        Seed of all random numbers: int, Generator, RandomState or None.
    n_jobs
        Threads; the result is the same for any number. None = 1, -1 = all cores.
    engine, progress, callbacks, checkpoint, resume
        As for `PoissonNMF`.

    Attributes
    ----------
    components_
        Components x features; each sums to 1.
    shape_, rate_
        Of the gamma prior of each component's activations: r and (1 - p_k) / p_k.
    n_components_, n_active_components_, active_components_
        Number of parts; number and positions of those that hold a share worth naming.
    n_iter_, trace_, status_
        Sweeps, the number of parts in use at each, and how the fit ended.
    n_features_in_, feature_names_in_
        Features of the training data.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import BetaGammaPFA
    >>> X = np.random.default_rng(0).poisson(3, size=(30, 8))
    >>> BetaGammaPFA(5, n_draws=20, burn_in=20, random_state=0).fit(X).components_.shape
    (5, 8)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{name: rule for name, rule in COMMON_CONSTRAINTS.items() if name not in ("max_iter", "tol")},
        "dictionary_concentration": _POSITIVE,
        "shape": _POSITIVE,
        "concentration": _POSITIVE,
        "base_probability": [Interval(Real, 0, 1, closed="neither"), None],
        "n_draws": [Interval(Integral, 1, None, closed="left")],
        "burn_in": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int = 100,
        *,
        dictionary_concentration: float = 0.1,
        shape: float = 1.0,
        concentration: float = 1.0,
        base_probability: float | None = None,
        n_draws: int = 500,
        burn_in: int = 500,
        active_threshold: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        engine: Any = None,
        progress: bool | None = None,
        callbacks: Sequence[Any] = (),
        checkpoint: Any = None,
        resume: bool = False,
    ) -> None:
        self.n_components = n_components
        self.dictionary_concentration = dictionary_concentration
        self.shape = shape
        self.concentration = concentration
        self.base_probability = base_probability
        self.n_draws = n_draws
        self.burn_in = burn_in
        self.active_threshold = active_threshold
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.engine = engine
        self.progress = progress
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.resume = resume

    @checks_parameters
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the parts.

        Parameters
        ----------
        X
            Counts, samples x features: array, sparse matrix, frame, AnnData or `Table`. NaN is missing.
        y
            Ignored.
        """
        data = self._data(X, reset=True, caller="fit")
        algorithm = BetaGammaGibbs(
            n_components=self.n_components,
            dictionary_concentration=self.dictionary_concentration,
            shape=self.shape,
            concentration=self.concentration,
            base_probability=1.0 / self.n_components if self.base_probability is None else self.base_probability,
            burn_in=self.burn_in,
            engine=self._engine(),
        )
        result = self._run(algorithm, data, convergence=None, max_iter=self.burn_in + self.n_draws)
        if result.status.code == "max_iter":
            self.status_ = Status(
                "max_iter",
                f"Ended after {result.n_iter} sweeps, as many as burn_in and n_draws ask for: if trace_['n_used'] still"
                " falls at the end, raise burn_in.",
            )
        self._store(result.state)
        return self

    def _store(self, state: BetaGammaState) -> None:
        # A fit that was interrupted in its burn-in has only its last draw.
        kept = state.n_kept
        dictionary = state.dictionary_sum / kept if kept else state.dictionary
        probability = state.probability_sum / kept if kept else state.probability
        counts = state.counts_sum if kept else np.asarray(state.sample_counts).sum(axis=0)
        self._store_components(dictionary, counts)
        self.shape_ = np.full(self.n_components, float(self.shape))
        self.rate_ = (1.0 - probability) / probability
