"""``AllocationNMF``: Bayesian NMF in which every count is allocated to a part."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from partwise.allocation.inference.annealed import AnnealedGibbs
from partwise.allocation.inference.collapsed_variational import AllocationCollapsedVariational, check_memory
from partwise.allocation.inference.decomposition import BestDecomposition
from partwise.allocation.inference.distributed import DistributedGibbs
from partwise.allocation.inference.gibbs import AllocationCollapsedGibbs, AllocationDraws, AllocationGibbsState
from partwise.allocation.inference.labels import first_feature_counts
from partwise.allocation.inference.partial import AllocationPartialGibbs
from partwise.allocation.inference.variational import AllocationVariationalBayes, absorb
from partwise.allocation.model import AllocationModel, Concentrations
from partwise.allocation.samples import FIRST_CONCENTRATION, AllocationSamples
from partwise.contract.declaration import Candidate, Declaration
from partwise.contract.given_parts import fixed_shares, given_names, read_seeds, seed_counts
from partwise.contract.parameters import CHAIN_CONSTRAINTS, COMMON_CONSTRAINTS, KNOWN_PART_CONSTRAINTS, POSITIVE
from partwise.contract.partial_fit import OnlineVariational
from partwise.core.data import MISSING_REMEDY, CountMatrix
from partwise.core.stopping import Threshold, small_change
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.poisson.inference.state import Start, checked_start
from partwise.sampling.agreement import check_chains
from partwise.sampling.gibbs import KeepsChains

_SAMPLERS: dict[str, type[AllocationCollapsedGibbs]] = {
    "gibbs": AllocationCollapsedGibbs,
    "gibbs-partial": AllocationPartialGibbs,
    "gibbs-distributed": DistributedGibbs,
}
ESTIMATE = StrOptions({"estimate"})
_MODES = ("bld", "map")
_IMPUTING = ("gibbs", "gibbs-partial")
_MISSING_REMEDY = "pass missing='impute' with inference='gibbs' or 'gibbs-partial', or fill it in"
_KL_ITERATIONS = 200
# Responsibilities are not an objective and change slowly, so their mean change is compared with this multiple of tol.
_CHANGE_PER_TOL = 100.0


@dataclass(eq=False, repr=False)
class AllocationNMF(KeepsChains, OnlineVariational, AllocationSamples):
    """Find parts of counts by allocating every count to a part: S_nfk ~ Poisson(w_fk h_nk L_n), x = Σ_k S.

    The model of Cemgil, Kurutmaz, Yildirim, Barsbey and Simsekli: L_n ~ Gamma(a, b), parts w_.k ~ Dirichlet(α), shares
    h_n. ~ Dirichlet(β). Given the lengths of samples, it is latent Dirichlet allocation (LDA).

    Parameters
    ----------
    n_components
        Number of parts.
    dictionary_concentration
        α: a number, or one per feature. Below 1, parts are sparse. ``"estimate"``: one number, learned during the fit.
        ``"auto"``: the same with fewer than 256 parts, otherwise 0.01.
    activation_concentration
        β: a number, or one per part. ``"estimate"``: one per part, learned during the fit, so parts may be common or
        rare. ``"bld"``, ``"map"`` and `partial_fit` use 0.1 instead of learning.
    length_shape
        a, shape of the gamma prior of a sample's length.
    length_rate
        b; None = length_shape divided by the mean total of the training samples.
    inference
        ``"gibbs"``: collapsed Gibbs sampling, exact; chains in parallel, and up to four blocks of a chain if the data
        are large. ``"gibbs-partial"``: draws the dictionary and collapses the activations, exact, rows in parallel.
        ``"gibbs-distributed"``: approximate, fixed blocks of rows in parallel. ``"cvb0"``, ``"vb"``: variational Bayes,
        collapsed and not collapsed. ``"bld"``: the paper's best latent decomposition, a relaxed mode of p(S), from
        KL-NMF. ``"map"``: a mode over whole numbers, by annealing.
    init
        Start of the KL-NMF that a fit begins with: ``"random"``, ``"nndsvd"`` or a pair (activations, parts). Every
        chain begins with its own, on a sample of the rows if the data are large. From 256 parts on, samplers with
        ``"random"`` draw initial labels one after the other instead. So does ``"map"``, which starts annealing from
        them.
    seeds
        Features that some parts should hold: a mapping such as ``{"tax": ["tax", "budget"]}``, or a .csv or .tsv file
        with the columns ``part`` and ``feature``. Seeded parts come first and get these names. A seed is a prior on its
        entry of the dictionary, like tokens of the part seen before the data. For ``inference="gibbs"``.
    seed_weight
        Strength of the prior: tokens that the seeds of a part stand for, as a share of the tokens of an average part.
    fixed_parts
        Known parts, parts x features: the first parts of the model, whose sizes are still fitted. The other parts are
        free. Features of a table or frame are matched by name, and its row labels name the parts. For
        ``inference="gibbs-partial"``.
    missing
        ``"refuse"`` or, for ``"gibbs"`` and ``"gibbs-partial"``, ``"impute"``: missing cells are drawn in every sweep.
    n_draws, burn_in, thin
        Draws kept per chain, sweeps discarded before them, and sweeps per kept draw.
    n_chains
        Independent chains of samplers and of ``"map"``. The fitted factors are those of the likeliest chain.
    max_iter
        Stop after this many iterations, for inference other than sampling; number of sweeps of ``"map"``. Samplers do
        ``burn_in + n_draws * thin`` sweeps. With ``"auto"`` they run until their chains agree (R-hat at most 1.05,
        effective sample size at least 100), for at most 5,000 sweeps; each round discards earlier draws.
    tol
        Stop when the objective grows by less than this many nats per count and iteration (cvb0: when responsibilities
        change by less than 100 times this on average). 0: run to ``max_iter``.
    max_memory
        Refuse fits of ``"cvb0"`` whose responsibilities would need more bytes.
    active_threshold
        A part counts as active from this share of the counts on; None = min(0.01, 0.1 / n_components).
    random_state
        Seed of all random numbers: int, Generator, RandomState or None.
    n_jobs
        Number of threads, for chains or for rows; it does not change the result. None = 1, -1 = all cores.
    engine, progress, callbacks, checkpoint, resume
        As for `PoissonNMF`.

    Attributes
    ----------
    components_
        Parts x features: posterior means of the parts, each summing to 1 (for the two modes, conditional means given S:
        Eq. 11 has no mode if concentrations are below 1).
    activations_
        Samples x parts of the training data: means of h_nk L_n.
    log_allocation_
        Log p(S) of the decomposition, for ``"bld"`` and ``"map"``.
    component_counts_
        Average number of counts allocated to each part.
    length_rate_
        b.
    log_joint_draws_, n_active_draws_, evenness_draws_
        Chains x draws of samplers: log p(X, labels); number of active parts; chance that two tokens differ in their
        part.
    part_agreement_
        How well the other chains found each part: the smallest cosine with its match in any of them. See
        `tentative_parts`.
    n_components_, n_active_components_, active_components_
        Number of parts; number and positions of those that explain a noticeable share of the data.
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

    kept_numbers: ClassVar[tuple[str, ...]] = AllocationDraws.names
    declares: ClassVar[Declaration] = Declaration(
        data="counts",
        papers=(
            "Cemgil, A. T., Kurutmaz, M. B., Yıldırım, S., Barsbey, M. & Şimşekli, U. (2019). Bayesian allocation "
            "model: inference by sequential Monte Carlo for nonnegative tensor factorizations and topic models using "
            "Pólya urns. arXiv:1903.04478.",
        ),
        candidates=(
            Candidate("allocation", effort={"burn_in": 50, "n_draws": 25, "n_chains": 1}, complexity=40, by_token=True),
        ),
        missing="fit",
        missing_settings={"missing": "impute"},
        marginal=True,
        samplers=tuple(_SAMPLERS),
        # Between two choices of K, log p(X) differs by tens of nats: an error of a few nats does not matter.
        evidence={"n_particles": 2, "n_islands": 4, "n_stages": 40, "n_pilot": 100},
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        **CHAIN_CONSTRAINTS,
        **KNOWN_PART_CONSTRAINTS,
        "dictionary_concentration": [POSITIVE, "array-like", StrOptions({"auto", "estimate"})],
        "activation_concentration": [POSITIVE, "array-like", ESTIMATE],
        "length_shape": [POSITIVE],
        "length_rate": [POSITIVE, None],
        "inference": [StrOptions({*_SAMPLERS, "cvb0", "vb", "bld", "map"})],
        "init": [StrOptions({"random", "nndsvd"}), tuple],
        "missing": [StrOptions({"refuse", "impute"})],
    }

    _: KW_ONLY
    inference: str = "gibbs"
    init: Any = "random"
    seed_weight: float = 0.1
    missing: str = "refuse"
    n_draws: int = 100
    burn_in: int = 200
    thin: int = 1
    n_chains: int = 2
    max_iter: int | str = 500
    tol: float = 1e-6
    max_memory: float = 4e9

    log_allocation_: float = field(init=False)
    log_joint_draws_: Floats = field(init=False)
    n_active_draws_: Floats = field(init=False)
    evenness_draws_: Floats = field(init=False)
    part_agreement_: Floats = field(init=False)

    def _model(self, data: CountMatrix) -> AllocationModel:
        rate = self.length_rate
        if rate is None:
            # The mean total of a sample if all its cells were observed.
            observed = 1.0 - data.n_missing / max(1, data.shape[0] * data.shape[1])
            rate = self.length_shape * data.shape[0] * observed / max(data.total, 1.0)
        concentrations = self._concentrations()
        estimated = tuple(name for name, value in concentrations.items() if isinstance(value, str))
        given = concentrations | dict.fromkeys(estimated, FIRST_CONCENTRATION)
        if self.inference in _MODES:
            estimated = ()
        lengths = {"length_shape": self.length_shape, "length_rate": rate}
        fixed = None
        if self.fixed_parts is not None:
            if self.inference != "gibbs-partial":
                raise InvalidInputError(
                    f"fixed_parts are for inference='gibbs-partial', not for {self.inference!r}: use that."
                )
            # At least one part is free: it holds the features that no fixed part has.
            fixed = fixed_shares(self.fixed_parts, int(self.n_components) - 1, data)
        return AllocationModel(
            data.shape[1], int(self.n_components), **given, **lengths, estimated=estimated, fixed=fixed
        )

    def _missing_rule(self, caller: str) -> tuple[bool, str]:
        if caller != "fit":
            return False, MISSING_REMEDY
        return self.missing == "impute", _MISSING_REMEDY

    def _fit(self, data: CountMatrix) -> None:
        if self.missing == "impute" and self.inference not in _IMPUTING:
            raise InvalidInputError(
                f"missing='impute' is for inference='gibbs' and 'gibbs-partial', not for {self.inference!r}: use one of"
                " these, or fill in the missing cells."
            )
        if self.seeds is not None and self.inference != "gibbs":
            raise InvalidInputError(f"seeds are for inference='gibbs', not for {self.inference!r}: use that.")
        model = self._model(data)
        if self.inference in _SAMPLERS:
            self._fit_by_sampling(model, data)
        elif self.inference in ("vb", "cvb0"):
            self._fit_variational(model, data)
        else:
            self._fit_modes(model, data)
        self.length_rate_ = model.length_rate

    def _start(self, data: CountMatrix) -> Start:
        """``init``, after the check of a pair."""
        if isinstance(self.init, tuple):
            return checked_start(self.init, data.shape, int(self.n_components))
        return str(self.init)

    def _fit_by_sampling(self, model: AllocationModel, data: CountMatrix) -> None:
        settings = self._sampler_settings(active_threshold=self._active_share(), engine=self._engine())
        if self.seeds is not None:
            settings["seeds"] = seed_counts(read_seeds(self.seeds), self.seed_weight, model.n_components, data)
        algorithm = _SAMPLERS[self.inference](model, self._start(data), **settings)
        most = self._most_sweeps(algorithm)
        state: AllocationGibbsState = self._run(algorithm, data, max_iter=most, convergence=self._chain_rule).state
        algorithm.keep_at_least_one(data, state)
        draws, kept, best = state.draws, state.draws.n_kept, state.draws.likeliest
        del state  # labels and counts are no longer needed, and factors are large enough
        activations = np.asarray(draws.activations[best])
        activations = np.divide(activations, kept, out=activations if activations.flags.writeable else None)
        draws.dictionary /= kept
        self._store(activations, draws.dictionary[best], draws.component_tokens[best] / kept)
        self._store_chains(draws, draws.dictionary)
        if names := given_names(self.seeds, self.fixed_parts):
            self.name_parts(names)
        learned = draws.dictionary_concentration[best], draws.activation_concentration[best]
        self._store_concentrations(Concentrations(*(values / kept for values in learned)))

    def _fit_variational(self, model: AllocationModel, data: CountMatrix) -> None:
        start, engine = self._start(data), self._engine()
        if self.inference == "vb":
            algorithm = AllocationVariationalBayes(model, engine, start)
            rule = small_change(self.tol, data.total)
            state = self._run(algorithm, data, max_iter=self._most_iterations, convergence=rule).state
        else:
            check_memory(data, model.n_components, self.max_memory)
            change = Threshold("change", _CHANGE_PER_TOL * self.tol) if self.tol > 0 else None
            collapsed = AllocationCollapsedVariational(model, engine, start)
            state = self._run(collapsed, data, max_iter=self._most_iterations, convergence=change).state
        learned = model.with_concentrations(
            Concentrations(state.dictionary_concentration, state.activation_concentration)
        )
        self._store_counts(learned, state.sample_counts, state.feature_counts)

    def _fit_modes(self, model: AllocationModel, data: CountMatrix) -> None:
        if self.inference == "bld":
            start, engine = self._start(data), self._engine()
            relaxed = BestDecomposition(model, start=start, start_iterations=_KL_ITERATIONS, engine=engine)
            rule = small_change(self.tol, data.total)
            found = self._run(relaxed, data, max_iter=self._most_iterations, convergence=rule).state
            self.log_allocation_ = float(found.objective)
            self._store_counts(model, found.sample_counts, found.feature_counts)
            return
        n_sweeps, n_chains = self._most_iterations, int(self.n_chains)
        annealed = AnnealedGibbs(model, n_sweeps=n_sweeps, n_chains=n_chains, engine=self._engine())
        state = self._run(annealed, data, max_iter=self._most_iterations).state
        self.log_allocation_ = float(state.log_allocation[state.best])
        by_feature = state.feature_counts[state.best][:, : model.n_components]
        self._store_counts(model, state.sample_counts[state.best], by_feature)

    def _absorb(self, data: CountMatrix, n_batches: int, n_seen: int) -> None:
        """Online variational Bayes."""
        model, engine = self._model(data), self._engine()
        first = not self._goes_on()
        if first:
            before = first_feature_counts(self._key(), data, model, self._start(data), engine) / data.shape[0]
        else:
            before = self.online_averages_
        averages = absorb(model, before, n_seen, data, engine)
        rate = model.length_rate if first or self.length_rate is not None else self._mean_rate(data, n_seen)
        self._forget()
        self.length_rate_, self.online_averages_ = rate, averages
        counts = averages * (n_seen + data.shape[0])
        self._store(None, model.expected_dictionary(counts), counts.sum(axis=0))
        self._store_concentrations(model.concentrations)

    def _mean_rate(self, data: CountMatrix, n_seen: int) -> float:
        """Length rate of all samples so far."""
        total = self.length_shape / self.length_rate_ * n_seen + data.total
        return float(self.length_shape * (n_seen + data.shape[0]) / max(total, 1.0))

    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """Fit the parts, and return the activations of the samples.

        Parameters
        ----------
        X
            Counts as for `fit`.
        y
            Ignored.

        Returns
        -------
        ndarray
            Samples x parts, as from `transform`; with ``missing="impute"``, those of the fit itself, which handles
            missing cells.
        """
        found: Floats = self.fit(X).activations_ if self.missing == "impute" else super().fit_transform(X)
        return found

    def facts(self) -> Mapping[str, float]:
        """The learned parameters of the priors."""
        found = {}
        if self.inference not in _MODES and isinstance(self.activation_concentration, str):
            found["sum of the activations' concentrations"] = float(self.activation_concentration_.sum())
        if self.inference not in _MODES and isinstance(self._concentrations()["dictionary_concentration"], str):
            found["concentration of the dictionary"] = float(self.dictionary_concentration_[0])
        return found

    def _check_loaded(self) -> None:
        super()._check_loaded()
        check_chains(self.chains())
