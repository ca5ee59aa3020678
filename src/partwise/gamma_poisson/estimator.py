"""``GammaPoissonNMF``: the dictionary with the highest marginal likelihood, with activations integrated out."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from partwise.contract.batches import BatchModel
from partwise.contract.declaration import Candidate, Declaration
from partwise.contract.given_parts import fixed_shares, given_names, read_seeds, seed_counts
from partwise.contract.parameters import AT_LEAST_0, AT_LEAST_1, COMMON_CONSTRAINTS, KNOWN_PART_CONSTRAINTS, POSITIVE
from partwise.core.data import CountMatrix, SparseData
from partwise.core.stopping import Rule, SmallChange, Threshold
from partwise.core.validation import positive_each
from partwise.errors import InvalidInputError
from partwise.gamma_poisson.gamma_activations import GammaActivations
from partwise.gamma_poisson.inference.exact_em import ExactEM
from partwise.gamma_poisson.inference.joint import JointEM
from partwise.gamma_poisson.inference.mcem import MonteCarloEM, StochasticApproximationEM
from partwise.gamma_poisson.inference.online import OnlineEM, OnlineState
from partwise.gamma_poisson.inference.starts import given_dictionary
from partwise.gamma_poisson.inference.thorough import Thorough
from partwise.gamma_poisson.inference.vem import VariationalEM
from partwise.gamma_poisson.model import GammaPoissonAlgorithm, GammaPoissonModel
from partwise.kernels.arrays import Floats

# Default numbers of iterations.
_MAX_ITER = {"thorough": 2000, "vem": 2000, "joint": 2000, "exact-em": 1000}
_MAX_ITER_OF_OTHERS = 500
# Kept and discarded sweeps per iteration.
_SWEEPS = {"saem": (1, 0), "online": (3, 2)}
_SWEEPS_OF_OTHERS = 150, 150
_ALGORITHMS = {"thorough", "mcem-c", "mcem-h", "mcem-ch", "saem", "online", "vem", "joint", "exact-em"}
_OF_BATCHES = {"vem", "online"}
_OF_ANY_NUMBERS = {"vem", "joint"}
# Tolerance of a sampler, in nats for all data together: far less than a tie between two models.
_NEGLIGIBLE = 5e-2


@dataclass(eq=False, repr=False)
class GammaPoissonNMF(BatchModel, GammaActivations):
    """Find parts of counts by maximum marginal likelihood: h_nk ~ Gamma(shape, rate), x_nf ~ Poisson(Σ_k h_nk w_fk).

    Activations are integrated out and the dictionary w is free. Parts that are not needed become empty.

    Parameters
    ----------
    n_components
        Largest number of parts; those that are not needed stay empty.
    shape
        a_k of the gamma priors: a number, one per part, or ``"estimate"``.
    rate
        b_k: a number, or one per part. It only sets the scale of the dictionary.
    inference
        ``"vem"``: variational EM, the fastest, which predicts nearly as well as ``"thorough"``. ``"thorough"``: the
        highest marginal likelihood, in about seven times the time. It tries several starts, then runs stochastic EM
        until Monte Carlo error does not matter. Parts are merged or removed if that raises the likelihood, and small
        problems end with exact EM. ``"mcem-c"``, ``"mcem-h"``, ``"mcem-ch"``: Monte Carlo EM as published, for
        ``max_iter`` iterations. ``"saem"``: stochastic approximation. ``"online"``: one minibatch per iteration.
        ``"exact-em"``: exact E-step, for small problems. ``"joint"``: maximum joint likelihood of dictionary and
        activations, for comparison.
    e_step
        ``"sampled"`` or ``"rao-blackwell"``, for the three MCEM algorithms and SAEM. None: sampled for MCEM, as
        published, and Rao-Blackwellised for SAEM.
    draws_per_iter, burn_in_per_iter
        Gibbs sweeps per iteration to average over, and to discard before. None: 150 and 150 for MCEM, 1 and 0 for SAEM,
        3 and 2 for batches.
    init
        None: the default start of the algorithm (for MCEM the deterministic start of Eq. 51); or an array, parts x
        features.
    seeds
        Features that some parts should hold: a mapping such as ``{"tax": ["tax", "budget"]}``, or a .csv or .tsv file
        with the columns ``part`` and ``feature``. Seeded parts come first and get these names. A seed is a prior on its
        entry of the dictionary, like tokens of the part seen before the data. For ``inference="vem"``.
    seed_weight
        Strength of the prior: tokens that the seeds of a part stand for, as a share of the tokens of an average part.
    fixed_parts
        Known parts, parts x features: the first parts of the model, whose sizes are still fitted. The other parts are
        free. Features of a table or frame are matched by name, and its row labels name the parts. For
        ``inference="vem"``, and without seeds.
    n_starts
        Number of starts that ``"thorough"`` tries.
    batch_size
        Number of samples per batch of ``"online"``.
    max_iter
        Stop after this many iterations. None: 500; 2,000 for thorough, vem and joint; 1,000 for exact-em.
    tol
        Nats per count. ``"vem"``, ``"exact-em"`` and ``"joint"`` stop when an iteration gains less. ``"thorough"``
        stops when neither an EM step nor less noise would gain more, or less than 0.05 nats in total. 0: run to
        ``max_iter``.
    active_threshold
        A part counts as active from this share of the expected counts on; None = min(0.01, 0.1 / n_components).
    random_state
        Seed of all random numbers: int, Generator, RandomState or None.
    n_jobs
        Number of threads; it does not change the result. None = 1, -1 = all cores.
    engine, progress, callbacks, checkpoint, resume
        As for `PoissonNMF`.

    Attributes
    ----------
    components_
        Parts x features, on the scale that ``rate`` sets: E[x_f] = Σ_k (shape_k / rate_k) w_fk.
    shape_, rate_
        a_k and b_k of each part.
    n_components_, n_active_components_, active_components_
        Number of parts; number and positions of those that explain a noticeable share of the data.
    n_iter_, trace_, status_
        Number of iterations, what each reached, and how the fit ended. The trace has the column norms w_+k and, if the
        algorithm knows it, the objective. That is the log-likelihood (exact-em), its variational bound (vem, online),
        or the joint log-likelihood (joint). The others give the bound at the start of sampling plus the gain since,
        with ``objective_error``.
    column_norms_
        Iterations x parts: w_+k after each iteration.
    batch_names_, batch_factors_, batch_strength_
        As for `PoissonNMF`; ``"vem"`` and ``"online"`` take batches.
    n_samples_seen_
        Number of training samples, including all batches of `partial_fit`.
    n_features_in_, feature_names_in_
        Features of the training data.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import GammaPoissonNMF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(rng.gamma(1.0, 10.0, size=(100, 2)) @ np.array([[2, 1, 0, 0], [0, 0, 1, 3]]))
    >>> GammaPoissonNMF(4, inference="thorough", random_state=0).fit(X).n_active_components_
    2
    """

    declares: ClassVar[Declaration] = Declaration(
        data="counts",
        papers=(
            "Filstroff, L., Lumbreras, A. & Févotte, C. (2018). Closed-form marginal likelihood in Gamma-Poisson "
            "matrix factorization. International Conference on Machine Learning.",
        ),
        # The shape stays 1: unneeded parts become empty there, but not at smaller shapes.
        candidates=(Candidate("gamma-poisson", effort={"tol": 1e-4, "max_iter": 300}, complexity=20, cost=3),),
        marginal=True,
        given_parts=True,
        batches=True,
        counts_parts_by="active",
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        **KNOWN_PART_CONSTRAINTS,
        "max_iter": [AT_LEAST_0, None],
        "shape": [POSITIVE, "array-like", StrOptions({"estimate"})],
        "rate": [POSITIVE, "array-like"],
        "inference": [StrOptions(_ALGORITHMS)],
        "e_step": [StrOptions({"sampled", "rao-blackwell"}), None],
        "draws_per_iter": [AT_LEAST_1, None],
        "burn_in_per_iter": [AT_LEAST_0, None],
        "init": ["array-like", None],
        "n_starts": [AT_LEAST_1],
        "batch_size": [AT_LEAST_1],
    }

    _: KW_ONLY
    shape: Any = 1.0
    rate: Any = 1.0
    inference: str = "vem"
    e_step: str | None = None
    draws_per_iter: int | None = None
    burn_in_per_iter: int | None = None
    init: Any = None
    seeds: Any = None
    seed_weight: float = 0.1
    fixed_parts: Any = None
    n_starts: int = 5
    batch_size: int = 256
    max_iter: int | None = None
    tol: float = 1e-5

    online_statistic_: Floats = field(init=False)

    @property
    def column_norms_(self) -> Floats:
        """Iterations x parts: w_+k after each iteration of the fit."""
        if not len(self.trace_):
            return np.empty((0, self.n_components_))
        return np.column_stack([self.trace_[f"column_norm_{k}"] for k in range(self.n_components_)])

    @property
    def _needs_integers(self) -> bool:
        return self.inference not in _OF_ANY_NUMBERS

    def _take_components(self, dictionary: Floats) -> None:
        self._store(GammaPoissonModel(dictionary, *self._prior()))

    def _regroup(self, fitted: Any, membership: Floats, dictionary: Floats) -> None:
        """Shapes add up. Rates are chosen so that a merged part expects as many counts as its members together."""
        shape = fitted.shape_ @ membership
        expected = (fitted.components_.sum(axis=1) * fitted.shape_ / fitted.rate_) @ membership
        rate = np.divide(shape * dictionary.sum(axis=0), expected, out=np.ones(shape.size), where=expected > 0)
        self._store(GammaPoissonModel(dictionary, shape, rate))
        if not isinstance(self.shape, str) and np.ndim(self.shape):
            self.shape = shape
        if np.ndim(self.rate):
            self.rate = rate

    def _prior(self) -> tuple[Floats, Floats]:
        """Shapes (estimation starts at 1) and rates."""
        shape = 1.0 if isinstance(self.shape, str) else self.shape
        return positive_each(shape, "shape", self.n_components), positive_each(self.rate, "rate", self.n_components)

    def _fit(self, data: CountMatrix) -> None:
        tol = self.tol
        rule: Rule | None = None
        if tol > 0 and self.inference == "thorough":
            tol = max(tol, _NEGLIGIBLE / max(data.total, 1.0))
            rule = Threshold("remaining_gain", tol)
        elif tol > 0 and self.inference in ("vem", "joint", "exact-em"):
            rule = SmallChange(tol, max(data.total, 1.0), patience=2)
        algorithm = self._algorithm(data, tol)
        max_iter = _MAX_ITER.get(self.inference, _MAX_ITER_OF_OTHERS) if self.max_iter is None else self.max_iter
        self._store(algorithm.model(self._run(algorithm, data, max_iter=max_iter, convergence=rule).state))
        if names := given_names(self.seeds, self.fixed_parts):
            self.name_parts(names)

    def _batchable(self, algorithm: Any) -> Any:
        if self.inference not in _OF_BATCHES or (self.inference == "online" and isinstance(self.shape, str)):
            how = "" if self.inference not in _OF_BATCHES else " with shape='estimate'"
            raise InvalidInputError(f"inference={self.inference!r}{how} does not take batch: use inference='vem'.")
        return algorithm

    def _settings(self, data: SparseData) -> dict[str, Any]:
        """Arguments that all algorithms share."""
        prior: dict[str, Any] = dict(zip(("shape", "rate"), self._prior(), strict=True))
        start = None if self.init is None else given_dictionary(self.init, data, self.n_components)
        return prior | {"estimate_shape": isinstance(self.shape, str), "start": start, "engine": self._engine()}

    def _algorithm(self, data: SparseData, tol: float) -> GammaPoissonAlgorithm:
        settings = self._settings(data)
        if self.fixed_parts is not None:
            if self.inference != "vem" or self.seeds is not None:
                raise InvalidInputError("fixed_parts need inference='vem' and no seeds: change these.")
            settings["fixed"] = fixed_shares(self.fixed_parts, int(self.n_components), data)
        if self.seeds is not None:
            if self.inference != "vem":
                raise InvalidInputError(f"seeds need inference='vem', and it is {self.inference!r}: change it.")
            settings["seeds"] = seed_counts(read_seeds(self.seeds), self.seed_weight, self.n_components, data)
        if self.inference == "thorough":
            return Thorough(**settings, n_starts=self.n_starts, tol=tol, n_jobs=self.n_jobs)
        if self.inference == "vem":
            return VariationalEM(**settings)
        if self.inference == "exact-em":
            return ExactEM(**settings, n_jobs=self.n_jobs)
        if self.inference == "joint":
            if settings.pop("estimate_shape") or np.any(settings["shape"] < 1):
                raise InvalidInputError(
                    "inference='joint' needs a fixed shape of at least 1, because below 1 the joint likelihood is"
                    " infinite at activations of 0: use inference='vem'."
                )
            return JointEM(**settings)
        if self.inference == "online":
            return self._online(settings)
        draws, burn_in = self._sweeps(self.inference)
        if self.inference == "saem":
            e_step = self.e_step or "rao-blackwell"
            return StochasticApproximationEM(**settings, m_step="c", e_step=e_step, draws=draws, burn_in=burn_in)
        m_step, e_step = self.inference.removeprefix("mcem-"), self.e_step or "sampled"
        return MonteCarloEM(**settings, m_step=m_step, e_step=e_step, draws=draws, burn_in=burn_in)

    def _online(self, settings: dict[str, Any]) -> OnlineEM:
        draws, burn_in = self._sweeps("online")
        return OnlineEM(**settings, batch_size=self.batch_size, draws=draws, burn_in=burn_in)

    def _sweeps(self, inference: str) -> tuple[int, int]:
        draws, burn_in = _SWEEPS.get(inference, _SWEEPS_OF_OTHERS)
        return self.draws_per_iter or draws, burn_in if self.burn_in_per_iter is None else self.burn_in_per_iter

    def _store(self, model: GammaPoissonModel) -> None:
        self._store_components(model.dictionary, model.dictionary.sum(axis=0) * model.shape / model.rate)
        self.shape_, self.rate_ = model.shape.copy(), model.rate.copy()

    def _absorb(self, data: CountMatrix, n_batches: int, n_seen: int) -> None:
        """Online EM, whatever ``inference`` is."""
        online, key = self._online(self._settings(data)), self._key()
        if not hasattr(self, "components_"):
            state = online.init(key, data)
        elif hasattr(self, "online_statistic_"):
            state = OnlineState(self.shape_.copy(), self.online_statistic_, n_seen)
        else:
            state = OnlineState(self.shape_.copy(), self.components_.T * (self.shape_ / self.rate_), n_seen)
        online.absorb(key.at(n_batches + 1), data, state)
        self._forget()
        self._store(online.model(state))
        self.online_statistic_ = state.statistic

    @property
    def _variational_means(self) -> bool:
        # For shapes below 1 they are far off (at 0.3, by 80% for the worst 5% of activations); above, by 17%.
        return not self._needs_integers and (self.inference == "joint" or bool(self.shape_.min() >= 1.0))
