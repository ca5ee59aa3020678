"""``BinaryNMF``: nonnegative factorization of bits without a link function, with priors that switch off spare parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from partwise.binary.inference.activations import Way, activations_of
from partwise.binary.inference.cells import Cells, needed_bytes, refuse_beyond
from partwise.binary.inference.collapsed_variational import BinaryCollapsedVariational
from partwise.binary.inference.em import ExpectationMaximisation
from partwise.binary.inference.gibbs import BinaryCollapsedGibbs, BinaryGibbsState
from partwise.binary.inference.partial import BinaryPartialGibbs
from partwise.binary.inference.posterior import (
    BinaryDraws,
    Posterior,
    beta_moments,
    dirichlet_moments,
    posterior_of_counts,
    posterior_of_draws,
    posterior_of_factors,
)
from partwise.binary.inference.variational import BinaryVariationalBayes, StochasticVariational, absorb, random_averages
from partwise.binary.model import KINDS, BinaryModel
from partwise.contract.bits import BitModel, Floats, checked_cells
from partwise.contract.declaration import Candidate, Declaration
from partwise.contract.estimator import AT_LEAST_0, AT_LEAST_1, COMMON_CONSTRAINTS, POSITIVE
from partwise.contract.model_file import check_array_is
from partwise.core.data import BinaryMatrix
from partwise.core.stopping import SmallChange, Threshold, small_change
from partwise.errors import InvalidInputError
from partwise.sampling.chains import KeepsChains, check_chains

_SAMPLERS = {"gibbs": BinaryCollapsedGibbs, "gibbs-partial": BinaryPartialGibbs}
_INFERENCE = {*_SAMPLERS, "cvb0", "cvb", "vb", "em", "map"}
_WAYS: dict[str, Way] = {"gibbs": "sample", "gibbs-partial": "sample", "em": "mode", "map": "mode"}
# The mean change of responsibilities is compared with this many times tol: it is no objective, and shrinks slowly.
_CHANGE_PER_TOL = 100.0
# Comparisons need means, not tails: fewer draws than by default. One chain: restarts show what others would find.
_EFFORT = {"burn_in": 100, "n_draws": 50, "thin": 2, "n_chains": 1}


def _candidate(kind: str, complexity: int) -> Candidate:
    return Candidate(kind, {"model": kind, "init": "vb"}, _EFFORT, data="bits", complexity=complexity)


@dataclass(eq=False, repr=False)
class BinaryNMF(KeepsChains, BitModel):
    """Find parts of 0/1 data, perhaps with missing cells: P(x_nf = 1) = Σ_k w_fk h_nk, no link function.

    The models of Lumbreras, Filstroff & Févotte (2020). One factor's rows sum to 1 and the other's entries are
    probabilities, or both sum to 1, so that every prediction is a probability and every part can be read as one.

    Parameters
    ----------
    n_components
        Most parts.
    model
        ``"beta-dir"``: each feature is spread over parts (w_f. ~ Dirichlet), a sample has each part with a probability
        of its own (h_nk ~ Beta). ``"dir-beta"``: each sample is spread over parts, a part has each feature with some
        probability. ``"dir-dir"``: both are spread.
    inference
        ``"gibbs"``: collapsed Gibbs sampling, exact. ``"gibbs-partial"``: the Dirichlet factor drawn, rows in parallel.
        ``"cvb0"``, ``"cvb"``: collapsed variational Bayes, of zeroth and second order. ``"vb"``: variational Bayes (of
        Beta-Dir: binary ICA). ``"em"``: maximum likelihood (Aspect Bernoulli). ``"map"``: maximum a posteriori. The two
        ``cvb`` and ``"gibbs-partial"`` are for the two models with a beta factor.
    beta_prior
        α and β of the beta prior.
    concentration
        Of the Dirichlet prior (for Dir-Dir that of the dictionary), of all parts together if ``nonparametric``, else of
        each.
    activation_concentration
        Of the second Dirichlet prior of Dir-Dir, for each part; None = 1 / n_components, which predicts best. The paper
        has 1.0.
    nonparametric
        Divide ``concentration`` by ``n_components``: parts that are not needed empty out, so take more than you expect.
    init
        Labels that samplers and ``cvb`` start from: ``"random"``, or ``"vb"``, drawn from a variational fit with ten
        parts.
    n_draws, burn_in, thin
        Draws that each chain keeps, sweeps that it throws away before, and sweeps for each draw that is kept.
    n_chains
        Independent chains; predictions are averaged over them, and the dictionary is that of the likeliest.
    max_iter
        Most iterations, where inference is not sampling.
    tol
        Stop when the objective grows by less than this many nats per observed cell and iteration; of ``cvb0`` and
        ``cvb``, when responsibilities change by less than 100 times this on average. 0: run to ``max_iter``.
    batch_size
        Samples in a batch of stochastic variational Bayes (``inference="vb"``); None = all at once.
    max_memory
        Refuse fits that would need more bytes.
    active_threshold
        Share of the observed cells from which a part counts as active; None = 0.01.
    random_state
        Seed of all random numbers: int, Generator, RandomState or None.
    n_jobs
        Threads for chains, or for blocks of rows; the result is the same for any number. None = 1, -1 = all cores.
    engine, progress, callbacks, checkpoint, resume
        As for `PoissonNMF`.

    Attributes
    ----------
    components_, components_std_
        Components x features: posterior means and standard deviations of w (those of one chain).
    activations_, activations_std_
        Samples x components, the same of h.
    probabilities_, probabilities_std_
        Samples x features, of P(x = 1), over all chains.
    component_cells_
        Observed cells that each part explains, on average.
    n_components_, n_active_components_, active_components_
        Number of parts; number and positions of those that hold a share worth naming.
    log_joint_draws_, log_likelihood_draws_, n_active_draws_, missing_probability_draws_
        Chains x draws, of samplers: log p(X, labels); log-likelihood of the observed cells; active parts; mean
        probability of the missing cells (NaN if there are none).
    missing_cells_
        Missing cells of the training matrix, as row x n_features + column.
    n_iter_, trace_, status_
        Sweeps or iterations, what was reached at each, and how the fit ended.
    n_features_in_, feature_names_in_
        Features of the training data.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import BinaryNMF
    >>> votes = np.array([[1, 1, 0, 0], [1, 1, 0, np.nan], [0, 0, 1, 1], [0, np.nan, 1, 1]] * 5)
    >>> model = BinaryNMF(5, n_draws=50, burn_in=50, thin=2, random_state=0).fit(votes)
    >>> bool(model.predict_proba(cells=([1], [3]))[0] < 0.5 < model.predict_proba()[2, 2])
    True
    """

    kept_numbers: ClassVar[tuple[str, ...]] = BinaryDraws.names
    declares: ClassVar[Declaration] = Declaration(
        data="bits",
        papers=(
            "Lumbreras, A., Filstroff, L. & Févotte, C. (2020). Bayesian mean-parameterized nonnegative binary matrix "
            "factorization. Data Mining and Knowledge Discovery. doi:10.1007/s10618-020-00712-w",
        ),
        candidates=(_candidate("beta-dir", 10), _candidate("dir-beta", 20), _candidate("dir-dir", 30)),
        counts_parts_by="active",
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        "model": [StrOptions(set(KINDS))],
        "inference": [StrOptions(_INFERENCE)],
        "beta_prior": [tuple, list],
        "concentration": [POSITIVE],
        "activation_concentration": [POSITIVE, None],
        "nonparametric": ["boolean"],
        "init": [StrOptions({"random", "vb"})],
        "n_draws": [AT_LEAST_1],
        "burn_in": [AT_LEAST_0],
        "thin": [AT_LEAST_1],
        "n_chains": [AT_LEAST_1],
        "batch_size": [AT_LEAST_1, None],
        "max_memory": [POSITIVE],
    }

    n_components: int = 100
    _: KW_ONLY
    model: str = "beta-dir"
    inference: str = "gibbs"
    beta_prior: Sequence[float] = (1.0, 1.0)
    concentration: float = 1.0
    activation_concentration: float | None = None
    nonparametric: bool = True
    init: str = "random"
    n_draws: int = 100
    burn_in: int = 500
    thin: int = 5
    n_chains: int = 2
    max_iter: int = 500
    tol: float = 1e-6
    batch_size: int | None = None
    max_memory: float = 4e9

    components_std_: Floats = field(init=False)
    activations_: Floats = field(init=False)
    activations_std_: Floats = field(init=False)
    component_cells_: Floats = field(init=False)
    online_averages_: Floats = field(init=False)
    probabilities_std_: Floats = field(init=False)
    log_joint_draws_: Floats = field(init=False)
    log_likelihood_draws_: Floats = field(init=False)
    n_active_draws_: Floats = field(init=False)
    missing_probability_draws_: Floats = field(init=False)

    def _binary_model(self) -> BinaryModel:
        prior = tuple(self.beta_prior)
        if len(prior) != 2 or not all(isinstance(part, Real) and 0 < part < np.inf for part in prior):
            raise InvalidInputError(f"beta_prior must be two positive numbers (alpha, beta), got {self.beta_prior!r}.")
        if self.model == "dir-dir" and self.inference in ("cvb0", "cvb", "gibbs-partial"):
            raise InvalidInputError(
                f"inference={self.inference!r} needs a beta factor, which model='dir-dir' has not: use 'gibbs', 'vb' or"
                " 'em', or another model."
            )
        if self.batch_size is not None and self.inference != "vb":
            raise InvalidInputError(f"batch_size is for inference='vb', not for {self.inference!r}: leave it None.")
        own = self.activation_concentration
        return BinaryModel(
            cast(Any, self.model),
            int(self.n_components),
            alpha=float(prior[0]),
            beta=float(prior[1]),
            concentration=self.concentration / (self.n_components if self.nonparametric else 1),
            activation_concentration=1.0 / self.n_components if own is None else own,
        )

    def _activation_model(self) -> BinaryModel:
        """The model that activations of new samples are found under: maximum likelihood has flat priors."""
        model = replace(self._binary_model(), n_components=self.n_components_)
        if self.inference != "em":
            return model
        return replace(model, alpha=1.0, beta=1.0, concentration=1.0, activation_concentration=1.0)

    def _fit(self, data: BinaryMatrix) -> None:
        model = self._binary_model()
        n_cells = data.shape[0] * data.shape[1] - data.n_missing
        pair = model.kind == "dir-dir"
        needed = needed_bytes(self.inference, data.shape, n_cells, model.n_components, self.n_chains, pair=pair)
        refuse_beyond(self.max_memory, needed, self.inference)
        if self.batch_size is not None:
            self._fit_in_batches(model, data)
        elif self.inference in _SAMPLERS:
            self._fit_by_sampling(model, data)
        elif self.inference in ("em", "map"):
            self._fit_modes(model, data)
        else:
            self._fit_variational(model, data)

    def _fit_by_sampling(self, model: BinaryModel, data: BinaryMatrix) -> None:
        cells = Cells.of(data, model.kind)
        settings = self._sampler_settings(active_threshold=self._active_share(), engine=self._engine())
        algorithm = _SAMPLERS[self.inference](model, cast(Any, self.init), **settings)
        state: BinaryGibbsState = self._run(algorithm, cells, max_iter=algorithm.n_sweeps).state
        algorithm.keep_at_least_one(cells, state)
        self._store(data, posterior_of_draws(model, state.draws))
        self._store_chains(state.draws)

    def _fit_variational(self, model: BinaryModel, data: BinaryMatrix) -> None:
        cells = Cells.of(data, model.kind)
        if self.inference == "vb":
            variational = BinaryVariationalBayes(model, self._engine())
            state = self._run(variational, cells, max_iter=self.max_iter, convergence=self._rule(cells)).state
            row_counts = state.row_counts
        else:
            rule = Threshold("change", _CHANGE_PER_TOL * self.tol) if self.tol > 0 else None
            algorithm = BinaryCollapsedVariational(model, 0 if self.inference == "cvb0" else 2, cast(Any, self.init))
            state = self._run(algorithm, cells, max_iter=self.max_iter, convergence=rule).state
            row_counts = np.moveaxis(state.row_counts, 1, 2)
        self._store(data, posterior_of_counts(model, row_counts, state.column_counts))

    def _fit_modes(self, model: BinaryModel, data: BinaryMatrix) -> None:
        cells = Cells.of(data, model.kind)
        algorithm = ExpectationMaximisation(model, self.inference == "map", self._engine())
        state = self._run(algorithm, cells, max_iter=self.max_iter, convergence=self._rule(cells)).state
        self._store(data, posterior_of_factors(model, cells, state.rows, state.columns))

    def _fit_in_batches(self, model: BinaryModel, data: BinaryMatrix) -> None:
        algorithm = StochasticVariational(model, int(cast(int, self.batch_size)), self._engine())
        state = self._run(algorithm, data, max_iter=self.max_iter).state
        self._store_online(model, state.averages, data.shape[0])
        self.activations_ = self._activations(data)
        self._store_cells(data, self.expected(self.activations_))

    def _rule(self, cells: Cells) -> SmallChange | None:
        return small_change(self.tol, max(cells.n_cells, 1))

    def _takes_batches(self) -> bool:
        if self.inference != "vb":
            raise AttributeError(f"partial_fit is for inference='vb', not for {self.inference!r}.")
        return True

    def _goes_on(self) -> bool:
        return hasattr(self, "online_averages_")

    def _absorb(self, data: BinaryMatrix, n_batches: int, n_seen: int) -> None:
        """Stochastic variational Bayes."""
        model = self._binary_model()
        first = not self._goes_on()
        before = random_averages(self._key(), model, data.shape[1]) if first else self.online_averages_
        averages = absorb(model, before, n_seen, data, self._engine())
        self._forget()
        self._store_online(model, averages, n_seen + data.shape[0])

    def _activations(self, data: BinaryMatrix) -> Floats:
        way = _WAYS.get(self.inference, "variational")
        return activations_of(data, self._activation_model(), self.components_.T.copy(), way, self._engine())

    def predict_std(self, *, cells: tuple[Any, Any] | None = None) -> Floats:
        """Posterior standard deviation of the probability of each cell of the training matrix.

        Parameters
        ----------
        cells
            Rows and columns of some cells; by default all.

        Returns
        -------
        ndarray
            Samples x features, or one number a cell. Not there after maximum likelihood.
        """
        check_is_fitted(self, "components_")
        whole = getattr(self, "probabilities_std_", None)
        if whole is None:
            raise InvalidInputError(
                f"inference={self.inference!r} gives no posterior standard deviations here: use 'gibbs', 'cvb0' or 'vb'"
                " on a whole matrix."
            )
        picked: Floats = whole.copy() if cells is None else whole[checked_cells(cells, whole.shape)]
        return picked

    @property
    def smallest_rank(self) -> int:
        """With one part, Dir-Dir says that everything is a one."""
        return 2 if self.model == "dir-dir" else 1

    @property
    def importance_words(self) -> tuple[str, str]:
        """What the entries of the dictionary are, in words."""
        # Where features are spread over parts, an entry is the part's share of the feature.
        inside = "probability in the part" if self.model == "dir-beta" else "share of the feature in the part"
        return inside, "frequency overall"

    def _store_online(self, model: BinaryModel, averages: Floats, n_seen: int) -> None:
        self.online_averages_ = averages
        counts = averages * n_seen
        if model.kind == "dir-beta":
            moments, shares = beta_moments(counts, model.alpha, model.beta), counts.sum(axis=(0, 2))
        else:
            moments, shares = dirichlet_moments(counts, model.concentration), counts.sum(axis=0)
        self._store_dictionary(moments.mean, np.sqrt(moments.variance), shares)

    def _store(self, data: BinaryMatrix, posterior: Posterior) -> None:
        self._store_cells(data, posterior.probability)
        self._store_dictionary(posterior.dictionary, posterior.dictionary_std, posterior.component_cells)
        self.activations_ = posterior.activations
        if posterior.activations_std is not None and posterior.probability_std is not None:
            self.activations_std_, self.probabilities_std_ = posterior.activations_std, posterior.probability_std

    def _store_dictionary(self, dictionary: Floats, std: Floats | None, component_cells: Floats) -> None:
        self._store_components(dictionary, component_cells)
        if std is not None:
            self.components_std_ = np.ascontiguousarray(std.T)
        self.component_cells_ = component_cells

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if not np.all((self.components_ >= 0) & (self.components_ <= 1)):
            raise ValueError("its components are not probabilities")
        if hasattr(self, "online_averages_"):
            n_dimensions = self.online_averages_.ndim
            shape = (self.n_features_in_, self.n_components_, 2)[:n_dimensions]
            check_array_is(self.online_averages_, "online_averages_", shape)
        check_chains(self.chains())
