"""``AllocationNMF``: Bayesian NMF in which every count is allocated to a part."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if

from partwise.allocation.fitted import FittedAllocation
from partwise.allocation.inference.annealed import AnnealedGibbs
from partwise.allocation.inference.collapsed_variational import CollapsedVariational, check_memory
from partwise.allocation.inference.decomposition import BestDecomposition
from partwise.allocation.inference.distributed import DistributedGibbs
from partwise.allocation.inference.gibbs import CollapsedGibbs, GibbsState
from partwise.allocation.inference.partial import PartialGibbs
from partwise.allocation.inference.start import first_feature_counts
from partwise.allocation.inference.variational import VariationalBayes, absorb
from partwise.allocation.model import AllocationModel
from partwise.core.convergence import SmallChange, Threshold
from partwise.core.data import CountMatrix
from partwise.core.estimator import COMMON_CONSTRAINTS, checks_parameters
from partwise.core.result import Status, Trace
from partwise.errors import InvalidInputError
from partwise.poisson.inference.state import Start, checked_start

Floats = NDArray[np.float64]

_SAMPLERS: dict[str, type[CollapsedGibbs]] = {
    "gibbs": CollapsedGibbs,
    "gibbs-partial": PartialGibbs,
    "gibbs-distributed": DistributedGibbs,
}
_IMPUTING = ("gibbs", "gibbs-partial")
_MISSING_REMEDY = "pass missing='impute' with inference='gibbs' or 'gibbs-partial', or fill it in"
_POSITIVE = Interval(Real, 0, None, closed="neither")
_KL_ITERATIONS = 200
# The mean change of responsibilities is compared with this many times tol: it is no objective, and shrinks slowly.
_CHANGE_PER_TOL = 100.0


def _takes_batches(estimator: Any) -> bool:
    if estimator.inference != "vb":
        raise AttributeError(f"partial_fit is for inference='vb', not for {estimator.inference!r}.")
    return True


class AllocationNMF(FittedAllocation):
    """Find parts of counts, every count being allocated to one of them: S_nfk ~ Poisson(w_fk h_nk L_n), x = Σ_k S.

    The model of Cemgil, Kurutmaz, Yildirim, Barsbey and Simsekli: L_n ~ Gamma(a, b), parts w_.k ~ Dirichlet(α), shares
    h_n. ~ Dirichlet(β). Given the lengths of samples it is latent Dirichlet allocation.

    Parameters
    ----------
    n_components
        Number of parts.
    dictionary_concentration
        α: a number, or one a feature. Below 1, parts are sparse.
    activation_concentration
        β: a number, or one a component.
    length_shape
        a, of the gamma prior of a sample's length.
    length_rate
        b; None = length_shape over the mean total of the training samples.
    inference
        ``"gibbs"``: collapsed Gibbs sampling, exact, chains in parallel. ``"gibbs-partial"``: draws the dictionary and
        collapses the activations, exact, rows in parallel. ``"gibbs-distributed"``: approximate, fixed blocks of rows
        side by side. ``"cvb0"``, ``"vb"``: variational Bayes, collapsed and not. ``"bld"``: the paper's best latent
        decomposition, a relaxed mode of p(S), from KL-NMF. ``"map"``: a mode over whole numbers, by annealing.
    init
        Start of the KL-NMF that a fit begins with: ``"random"``, ``"nndsvd"`` or a pair (activations, components).
        Every chain begins with its own. ``"map"`` cools down from labels drawn in turn.
    missing
        ``"refuse"`` or, for the two exact samplers, ``"impute"``: missing cells are drawn with everything else.
    n_draws, burn_in, thin
        Draws that each chain keeps, sweeps that it throws away before, and sweeps for each draw that is kept.
    n_chains
        Independent chains of samplers and of ``"map"``; the fitted factors are those of the likeliest.
    max_iter
        Most iterations, where inference is not sampling; sweeps of ``"map"``.
    tol
        Stop when the objective grows by less than this many nats per count and iteration (cvb0: when responsibilities
        change by less than 100 times this on average). 0: run to ``max_iter``.
    max_memory
        Refuse fits of ``"cvb0"`` whose responsibilities would need more bytes.
    active_threshold
        Share of the counts from which a part counts as active; None = min(0.01, 0.1 / n_components).
    random_state
        Seed of all random numbers: int, Generator, RandomState or None.
    n_jobs
        Threads, for chains or for rows; the result is the same for any number. None = 1, -1 = all cores.
    engine, progress, callbacks, checkpoint, resume
        As for `PoissonNMF`.

    Attributes
    ----------
    components_
        Components x features: posterior means of the parts, each summing to 1 (conditional means given S for the two
        modes, whose Eq. 11 has no mode where concentrations are below 1).
    activations_
        Samples x components of the training data: means of h_nk L_n.
    log_allocation_
        Log p(S) of the decomposition, of ``"bld"`` and ``"map"``.
    component_counts_
        Counts allocated to each part, on average.
    length_rate_
        b.
    log_joint_draws_, n_active_draws_, evenness_draws_
        Chains x draws, of samplers: log p(X, labels); active parts; chance that two tokens are of different parts.
    n_components_, n_active_components_, active_components_
        Number of parts; number and positions of those that hold a share worth naming.
    n_iter_, trace_, status_
        Sweeps or iterations, what was reached at each, and how the fit ended.
    n_features_in_, feature_names_in_
        Features of the training data.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import AllocationNMF
    >>> X = np.array([[9, 8, 0, 0], [7, 9, 0, 1], [0, 0, 9, 8], [1, 0, 7, 9]] * 3)
    >>> model = AllocationNMF(2, n_draws=20, burn_in=20, random_state=0).fit(X)
    >>> sorted(model.components_.round(1).sum(axis=1).tolist()), model.activations_.shape
    ([1.0, 1.0], (12, 2))
    """

    activations_: Floats
    component_counts_: Floats
    log_allocation_: float
    n_samples_seen_: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        "dictionary_concentration": [_POSITIVE, "array-like"],
        "activation_concentration": [_POSITIVE, "array-like"],
        "length_shape": [_POSITIVE],
        "length_rate": [_POSITIVE, None],
        "inference": [StrOptions({*_SAMPLERS, "cvb0", "vb", "bld", "map"})],
        "init": [StrOptions({"random", "nndsvd"}), tuple],
        "missing": [StrOptions({"refuse", "impute"})],
        "n_draws": [Interval(Integral, 1, None, closed="left")],
        "burn_in": [Interval(Integral, 0, None, closed="left")],
        "thin": [Interval(Integral, 1, None, closed="left")],
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "max_memory": [_POSITIVE],
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        dictionary_concentration: Any = 0.1,
        activation_concentration: Any = 0.1,
        length_shape: float = 1.0,
        length_rate: float | None = None,
        inference: str = "gibbs",
        init: Any = "random",
        missing: str = "refuse",
        n_draws: int = 100,
        burn_in: int = 200,
        thin: int = 1,
        n_chains: int = 2,
        max_iter: int = 500,
        tol: float = 1e-6,
        max_memory: float = 4e9,
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
        self.activation_concentration = activation_concentration
        self.length_shape = length_shape
        self.length_rate = length_rate
        self.inference = inference
        self.init = init
        self.missing = missing
        self.n_draws = n_draws
        self.burn_in = burn_in
        self.thin = thin
        self.n_chains = n_chains
        self.max_iter = max_iter
        self.tol = tol
        self.max_memory = max_memory
        self.active_threshold = active_threshold
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.engine = engine
        self.progress = progress
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.resume = resume

    def _model(self, data: CountMatrix) -> AllocationModel:
        rate = self.length_rate
        if rate is None:
            # The mean total of a sample as if all its cells were observed.
            observed = 1.0 - data.n_missing / max(1, data.shape[0] * data.shape[1])
            rate = self.length_shape * data.shape[0] * observed / max(data.total, 1.0)
        return AllocationModel(
            data.shape[1],
            int(self.n_components),
            self.dictionary_concentration,
            self.activation_concentration,
            self.length_shape,
            rate,
        )

    @checks_parameters
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the parts.

        Parameters
        ----------
        X
            Counts, samples x features: array, sparse matrix, frame, AnnData or `Table`. NaN is missing, and refused
            unless ``missing="impute"``.
        y
            Ignored.
        """
        if self.missing == "impute" and self.inference not in _IMPUTING:
            raise InvalidInputError(
                f"missing='impute' is for inference='gibbs' and 'gibbs-partial', not for {self.inference!r}: use one of"
                " these, or fill in the missing cells."
            )
        data = self._data(
            X, reset=True, caller="fit", allow_missing=self.missing == "impute", missing_remedy=_MISSING_REMEDY
        )
        model = self._model(data)
        self._forget()
        self.length_rate_ = model.length_rate
        if self.inference in _SAMPLERS:
            self._fit_by_sampling(model, data)
        elif self.inference in ("vb", "cvb0"):
            self._fit_variational(model, data)
        else:
            self._fit_modes(model, data)
        self.n_samples_seen_ = data.shape[0]
        return self

    def _start(self, data: CountMatrix) -> Start:
        """``init``, a pair being checked."""
        if isinstance(self.init, tuple):
            return checked_start(self.init, data.shape, int(self.n_components))
        return str(self.init)

    def _active_share(self) -> float:
        if self.active_threshold is None:
            return min(0.01, 0.1 / self.n_components)
        return float(self.active_threshold)

    def _fit_by_sampling(self, model: AllocationModel, data: CountMatrix) -> None:
        algorithm = _SAMPLERS[self.inference](
            model,
            burn_in=int(self.burn_in),
            n_draws=int(self.n_draws),
            thin=int(self.thin),
            n_chains=int(self.n_chains),
            active_threshold=self._active_share(),
            engine=self._engine(),
            start=self._start(data),
        )
        state: GibbsState = self._run(algorithm, data, convergence=None, max_iter=algorithm.n_sweeps).state
        draws = state.draws
        if draws.n_kept == 0:
            # Interrupted in its burn-in: the last labels are what there is.
            algorithm.keep(data, state)
        kept, best = draws.n_kept, draws.likeliest
        activations = np.asarray(draws.activations[best]) / kept
        self._store(activations, draws.dictionary[best] / kept, draws.component_tokens[best] / kept)
        self.log_joint_draws_ = draws.log_joint[:, :kept].copy()
        self.n_active_draws_ = draws.n_active[:, :kept].copy()
        self.evenness_draws_ = draws.evenness[:, :kept].copy()

    def _fit_variational(self, model: AllocationModel, data: CountMatrix) -> None:
        start, engine = self._start(data), self._engine()
        if self.inference == "vb":
            rule = SmallChange(self.tol, data.total, patience=2)
            state = self._run(VariationalBayes(model, engine, start), data, convergence=rule).state
        else:
            check_memory(data, model.n_components, self.max_memory)
            change = Threshold("change", _CHANGE_PER_TOL * self.tol) if self.tol > 0 else None
            state = self._run(CollapsedVariational(model, engine, start), data, convergence=change).state
        self._store_counts(model, state.sample_counts, state.feature_counts)

    def _fit_modes(self, model: AllocationModel, data: CountMatrix) -> None:
        if self.inference == "bld":
            relaxed = BestDecomposition(model, self._start(data), _KL_ITERATIONS, self._engine())
            rule = SmallChange(self.tol, data.total, patience=2)
            found = self._run(relaxed, data, convergence=rule).state
            self.log_allocation_ = float(found.objective)
            self._store_counts(model, found.sample_counts, found.feature_counts)
            return
        annealed = AnnealedGibbs(model, int(self.max_iter), int(self.n_chains), self._engine())
        state = self._run(annealed, data, convergence=None).state
        self.log_allocation_ = float(state.log_allocation[state.best])
        by_feature = state.feature_counts[state.best, :, : model.n_components]
        self._store_counts(model, state.sample_counts[state.best], by_feature)

    @available_if(_takes_batches)  # type: ignore[untyped-decorator]  # of scikit-learn, which has no types
    @checks_parameters
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Take in a batch of samples by on-line variational Bayes (``inference="vb"``); call it batch after batch.

        After `fit`, it starts anew.

        Parameters
        ----------
        X
            Some samples, with the same features in every call.
        y
            Ignored.
        """
        first = not hasattr(self, "online_averages_")
        if not first:
            self._check_goes_on()
        data = self._data(X, reset=first, caller="partial_fit")
        model = self._model(data)
        seen = 0 if first else self.n_samples_seen_
        engine = self._engine()
        with self._compiling():
            if first:
                before = first_feature_counts(self._key(), data, model, self._start(data), engine) / data.shape[0]
            else:
                before = self.online_averages_
            averages = absorb(model, before, seen, data, engine)
        iterations = 1 if first else self.n_iter_ + 1
        rate = model.length_rate if first or self.length_rate is not None else self._mean_rate(data, seen)
        self._forget()
        self.length_rate_, self.online_averages_, self.n_samples_seen_ = rate, averages, seen + data.shape[0]
        counts = averages * self.n_samples_seen_
        self._store(None, model.expected_dictionary(counts), counts.sum(axis=0))
        self.n_iter_, self.trace_ = iterations, Trace()
        self.status_ = Status(
            "stopped", f"Took in {self.n_samples_seen_} samples, the last by partial_fit; pass more to go on."
        )
        return self

    def _mean_rate(self, data: CountMatrix, n_seen: int) -> float:
        """Length rate of all samples so far."""
        total = self.length_shape / self.length_rate_ * n_seen + data.total
        return float(self.length_shape * (n_seen + data.shape[0]) / max(total, 1.0))

    def _store_counts(self, model: AllocationModel, sample_counts: Any, feature_counts: Any) -> None:
        factors = model.expected_factors(sample_counts, feature_counts)
        self._store(*factors, np.asarray(feature_counts, dtype=np.float64).sum(axis=0))

    def _store(self, activations: Floats | None, dictionary: Floats, component_counts: Floats) -> None:
        self._store_components(dictionary, component_counts)
        self.component_counts_ = component_counts
        if activations is not None:
            self.activations_ = np.asarray(activations)
