"""``GammaPoissonNMF``: the dictionary of highest marginal likelihood, activations integrated out."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from partwise.core.data import CountMatrix, SparseData
from partwise.core.estimator import COMMON_CONSTRAINTS, checks_parameters
from partwise.core.result import Status, Trace
from partwise.core.validation import positive_each
from partwise.gamma_poisson.fitted import GammaPoissonEstimator
from partwise.gamma_poisson.inference.activations import variational_mean
from partwise.gamma_poisson.inference.choice import ALGORITHMS, Choice
from partwise.gamma_poisson.inference.online import OnlineState
from partwise.gamma_poisson.inference.report import traced_norms
from partwise.gamma_poisson.inference.starts import given_dictionary
from partwise.gamma_poisson.model import GammaPoissonModel

Floats = NDArray[np.float64]

_POSITIVE = Interval(Real, 0, None, closed="neither")
_DRAWS = [Interval(Integral, 1, None, closed="left"), None]


class GammaPoissonNMF(GammaPoissonEstimator):
    """Find parts of counts by maximum marginal likelihood: h_nk ~ Gamma(shape, rate), x_nf ~ Poisson(Σ_k h_nk w_fk).

    Activations are integrated out and the dictionary w is free. Parts that are not needed empty by themselves.

    Parameters
    ----------
    n_components
        Most parts.
    shape
        a_k of the gamma priors: a number, one a component, or ``"estimate"``.
    rate
        b_k: a number, or one a component. It only sets the scale of the dictionary.
    inference
        ``"auto"``: several starts, variational EM, then stochastic EM until Monte Carlo error does not matter, with
        components merged or removed where that gains likelihood, and exact EM at the end of small problems.
        ``"mcem-c"``, ``"mcem-h"``, ``"mcem-ch"``: Monte Carlo EM as published, for ``max_iter`` iterations. ``"saem"``:
        stochastic approximation. ``"online"``: minibatches, an iteration each. ``"vem"``: variational EM.
        ``"exact-em"``: exact E-step, for small problems. ``"joint"``: maximum joint likelihood of dictionary and
        activations, for comparison.
    e_step
        ``"sampled"``, ``"rao-blackwell"`` or ``"collapsed"``, for the three MCEM and SAEM. None: sampled, as published,
        for MCEM, Rao-Blackwellised for SAEM.
    draws_per_iter, burn_in_per_iter
        Gibbs sweeps of an iteration that are averaged over, and that are thrown away before. None: 150 and 150 for
        MCEM, 1 and 0 for SAEM, 3 and 2 for batches.
    init
        None: as the algorithm asks (for MCEM the deterministic start of Eq. 51); or an array, components x features.
    n_starts
        Starts that ``"auto"`` tries.
    batch_size
        Samples in a batch of ``"online"``.
    max_iter
        Most iterations. None: 500, for auto, vem and joint 2,000, for exact-em 1,000.
    tol
        Nats per count: ``"auto"`` stops when neither an EM step nor less noise would gain more, ``"vem"``,
        ``"exact-em"`` and ``"joint"`` when an iteration gains less. 0: run to ``max_iter``.
    active_threshold
        Share of the expected counts from which a component counts as active; None = min(0.01, 0.1 / n_components).
    random_state
        Seed of all random numbers: int, Generator, RandomState or None.
    n_jobs
        Threads; the result is the same for any number. None = 1, -1 = all cores.
    engine, progress, callbacks, checkpoint, resume
        As for `PoissonNMF`.

    Attributes
    ----------
    components_
        Components x features, on the scale that ``rate`` sets: E[x_f] = Σ_k (shape_k / rate_k) w_fk.
    shape_, rate_
        a_k and b_k of each component.
    n_components_, n_active_components_, active_components_
        Number of parts; number and positions of those that hold a share worth naming.
    n_iter_, trace_, status_
        Iterations, what was reached at each, and how the fit ended. The trace has the column norms w_+k and, where the
        algorithm knows it, the objective: the log-likelihood (exact-em), its variational bound (vem, online), the joint
        one (joint), or the bound at the start of sampling plus the gain since, with ``objective_error`` (the others).
    column_norms_
        Iterations x components: w_+k after each iteration.
    n_samples_seen_
        Number of training samples, those of all batches of `partial_fit` together.
    n_features_in_, feature_names_in_
        Features of the training data.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import GammaPoissonNMF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.gamma(1.0, 10.0, size=(100, 2)) @ np.array([[2, 1, 0, 0], [0, 0, 1, 3]]))
    >>> GammaPoissonNMF(4, random_state=0).fit(X).n_active_components_
    2
    """

    n_samples_seen_: int
    online_statistic_: Floats

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        "max_iter": [Interval(Integral, 0, None, closed="left"), None],
        "shape": [_POSITIVE, "array-like", StrOptions({"estimate"})],
        "rate": [_POSITIVE, "array-like"],
        "inference": [StrOptions(set(ALGORITHMS))],
        "e_step": [StrOptions({"sampled", "rao-blackwell", "collapsed"}), None],
        "draws_per_iter": _DRAWS,
        "burn_in_per_iter": [Interval(Integral, 0, None, closed="left"), None],
        "init": ["array-like", None],
        "n_starts": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        shape: Any = 1.0,
        rate: Any = 1.0,
        inference: str = "auto",
        e_step: str | None = None,
        draws_per_iter: int | None = None,
        burn_in_per_iter: int | None = None,
        init: Any = None,
        n_starts: int = 5,
        batch_size: int = 256,
        max_iter: int | None = None,
        tol: float = 1e-5,
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
        self.shape = shape
        self.rate = rate
        self.inference = inference
        self.e_step = e_step
        self.draws_per_iter = draws_per_iter
        self.burn_in_per_iter = burn_in_per_iter
        self.init = init
        self.n_starts = n_starts
        self.batch_size = batch_size
        self.max_iter = max_iter  # type: ignore[assignment]  # None asks for the algorithm's own
        self.tol = tol
        self.active_threshold = active_threshold
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.engine = engine
        self.progress = progress
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.resume = resume

    @classmethod
    def from_components(
        cls,
        components: Any,
        *,
        feature_names: Any = None,
        component_names: Any = None,
        shape: Any = 1.0,
        rate: Any = 1.0,
        **parameters: Any,
    ) -> Self:
        """An estimator that counts as fitted, with given parts: for activations and likelihoods under them.

        Parameters
        ----------
        components
            Components x features, nonnegative.
        feature_names
            Names of the features, checked against the data where these have names.
        component_names
            Names of the parts, which `get_feature_names_out` and the command's tables then show.
        shape, rate
            Of the gamma priors: numbers, or one a component.
        parameters
            Further parameters of the estimator.

        Examples
        --------
        >>> from partwise import GammaPoissonNMF
        >>> model = GammaPoissonNMF.from_components([[9.0, 0.0], [0.0, 9.0]])
        >>> model.transform([[3, 4]]).round(6)
        array([[0.4, 0.5]])
        """
        given = CountMatrix.build(components, integers=False, allow_missing=False, caller="from_components")
        n_components, n_features = given.shape
        model = cls(n_components, shape=shape, rate=rate, **parameters)
        model.n_features_in_ = n_features
        model._remember_names(feature_names, component_names)
        model.n_iter_, model.trace_ = 0, Trace()
        model.status_ = Status("converged", "The components were given; there is nothing to fit.")
        dictionary = np.ascontiguousarray(given.to_scipy().toarray().T, dtype=np.float64)
        shapes, rates = positive_each(shape, "shape", n_components), positive_each(rate, "rate", n_components)
        model._store(GammaPoissonModel(dictionary, shapes, rates), 0)
        return model

    @property
    def column_norms_(self) -> Floats:
        """Iterations x components: w_+k after each iteration of the fit."""
        return traced_norms(self.trace_, self.n_components_)

    @checks_parameters
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the parts.

        Parameters
        ----------
        X
            Counts, samples x features: array, sparse matrix, frame, AnnData or `Table`; ``"vem"`` and ``"joint"``
            take any nonnegative data. NaN is missing.
        y
            Ignored.
        """
        data = self._data(X, reset=True, caller="fit", integers=self._needs_integers)
        choice = self._choice(data)
        algorithm = choice.algorithm(data)
        max_iter = ALGORITHMS[self.inference].max_iter if self.max_iter is None else self.max_iter
        result = self._run(algorithm, data, convergence=choice.rule(data), max_iter=max_iter)
        if hasattr(self, "online_statistic_"):
            del self.online_statistic_
        self._store(algorithm.model(result.state), data.shape[0])
        return self

    @property
    def _needs_integers(self) -> bool:
        return ALGORITHMS[self.inference].integers

    def _choice(self, data: SparseData) -> Choice:
        estimate = isinstance(self.shape, str)
        n_components = self.n_components
        return Choice(
            self.inference,
            positive_each(1.0 if estimate else self.shape, "shape", n_components),
            positive_each(self.rate, "rate", n_components),
            estimate,
            None if self.init is None else given_dictionary(self.init, data, n_components),
            self.e_step,
            self.draws_per_iter,
            self.burn_in_per_iter,
            self.n_starts,
            self.batch_size,
            self.tol,
            self._engine(),
            self.n_jobs,
        )

    def _store(self, model: GammaPoissonModel, n_samples: int) -> None:
        self._store_components(model.dictionary, model.dictionary.sum(axis=0) * model.shape / model.rate)
        self.shape_, self.rate_ = model.shape.copy(), model.rate.copy()
        self.n_samples_seen_ = n_samples

    @checks_parameters
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Take in a batch of samples by on-line EM, whatever ``inference`` is; call it with batch after batch.

        After `fit`, it goes on from the parts that were found, which count as much as the samples they were fitted to.

        Parameters
        ----------
        X
            Some samples, with the same features in every call.
        y
            Ignored.
        """
        begun = hasattr(self, "components_")
        data = self._data(X, reset=not begun, caller="partial_fit")
        if begun:
            self._check_goes_on()
        online = self._choice(data).online()
        n_batches = self.n_iter_ if hasattr(self, "online_statistic_") else 0
        with self._compiling():
            if not begun:
                state = online.init(self._key(), data)
            elif hasattr(self, "online_statistic_"):
                state = OnlineState(self.shape_.copy(), self.online_statistic_, self.n_samples_seen_)
            else:
                statistic = self.components_.T * (self.shape_ / self.rate_)
                state = OnlineState(self.shape_.copy(), statistic, self.n_samples_seen_)
            online.absorb(self._key().at(n_batches + 1), data, state)
        self._store(online.model(state), state.n_seen)
        self.online_statistic_ = state.statistic
        self.n_iter_, self.trace_ = n_batches + 1, Trace()
        self.status_ = Status(
            "stopped", f"Took in {state.n_seen} samples, the last by partial_fit; pass more to go on."
        )
        return self

    def transform(self, X: Any) -> Floats:
        """Posterior means of the activations, given the dictionary.

        Parameters
        ----------
        X
            Data as for `fit`.

        Returns
        -------
        ndarray
            Samples x components. By Gibbs sampling with one fixed stream for every row, so that the same row always
            gives the same bits, in any batch; means of the variational posterior for ``"vem"`` and ``"joint"``.
        """
        if self._needs_integers:
            return super().transform(X)
        check_is_fitted(self, "components_")
        data = self._data(X, reset=False, caller="transform", integers=False)
        with self._compiling():
            return variational_mean(data, self.components_.T, self.shape_, self.rate_, self._engine())
