"""``BinaryNMF``: nonnegative factorization of bits without a link function. Its priors switch off spare parts."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from partwise.binary.inference.batches import StochasticVariational, absorb, first_averages
from partwise.binary.inference.cells import Cells, needed_bytes, refuse_beyond
from partwise.binary.inference.collapsed_variational import BinaryCollapsedVariational
from partwise.binary.inference.em import ExpectationMaximisation
from partwise.binary.inference.gibbs import BinaryCollapsedGibbs, BinaryGibbsState
from partwise.binary.inference.learning import LearningVariationalBayes
from partwise.binary.inference.partial import BinaryPartialGibbs
from partwise.binary.inference.posterior import (
    BinaryDraws,
    posterior_of_counts,
    posterior_of_draws,
    posterior_of_factors,
)
from partwise.binary.inference.variational import BinaryVariationalBayes
from partwise.binary.model import KINDS, BinaryModel
from partwise.binary.samples import BinarySamples
from partwise.contract.declaration import Candidate, Declaration
from partwise.contract.model_file import check_array_is
from partwise.contract.parameters import AT_LEAST_1, CHAIN_CONSTRAINTS, COMMON_CONSTRAINTS, POSITIVE
from partwise.contract.partial_fit import OnlineVariational
from partwise.core.data import BinaryMatrix
from partwise.core.stopping import SmallChange, Threshold, small_change
from partwise.kernels.arrays import Floats
from partwise.sampling.agreement import check_chains
from partwise.sampling.gibbs import KeepsChains

_ESTIMATE = StrOptions({"estimate"})
_SAMPLERS = {"gibbs": BinaryCollapsedGibbs, "gibbs-partial": BinaryPartialGibbs}
_INFERENCE = {*_SAMPLERS, "cvb0", "cvb", "vb", "em", "map"}
# Responsibilities are not an objective and change slowly, so their mean change is compared with this multiple of tol.
_CHANGE_PER_TOL = 100.0
# Comparisons have many candidates, so fewer chains are averaged. They start in two ways: with just as many parts as
# there are, random starts get stuck more often than with one part more, which would then win.
_EFFORT = {"n_chains": 2, "init": "mixed"}


# Lumbreras et al. (2020), Section 6: flat priors, one long chain from random labels.
_PAPER = {
    "n_components": 100,
    "model": "beta-dir",
    "beta_prior": (1.0, 1.0),
    "concentration": 1.0,
    "activation_concentration": 1.0,
    "init": "random",
    "n_chains": 1,
    "burn_in": 4000,
    "n_draws": 1000,
    "thin": 1,
}


def _candidate(kind: str, complexity: int) -> Candidate:
    return Candidate(kind, {"model": kind}, _EFFORT, data="bits", complexity=complexity)


@dataclass(eq=False, repr=False)
class BinaryNMF(KeepsChains, OnlineVariational, BinarySamples):
    """Find parts of 0/1 data that may have missing cells: P(x_nf = 1) = Σ_k w_fk h_nk, without a link function.

    These are the models of Lumbreras, Filstroff & Févotte (2020). Rows of one factor sum to 1 and entries of the other
    are probabilities, or both sum to 1. So every prediction is a probability, and every part can be read as one.

    Parameters
    ----------
    n_components
        Largest number of parts; those that are not needed stay empty.
    model
        ``"beta-dir"``: each feature is spread over parts (w_f. ~ Dirichlet), and a sample has each part with its own
        probability (h_nk ~ Beta). ``"dir-beta"``: each sample is spread over parts, and a part has each feature with
        some probability. ``"dir-dir"``: both are spread.
    inference
        ``"gibbs"``: collapsed Gibbs sampling, exact. ``"gibbs-partial"``: the Dirichlet factor drawn, rows in parallel.
        ``"cvb0"``, ``"cvb"``: collapsed variational Bayes, of zeroth and second order. ``"vb"``: variational Bayes (of
        Beta-Dir: binary ICA). ``"em"``: maximum likelihood (Aspect Bernoulli). ``"map"``: maximum a posteriori. The two
        ``cvb`` and ``"gibbs-partial"`` are for the two models with a beta factor.
    beta_prior
        α and β of the beta prior, the same for all parts. ``"estimate"``: learn a pair for each part.
    concentration
        Concentration of the Dirichlet prior (for Dir-Dir that of the dictionary): of all parts together if
        ``nonparametric``, else of each part. ``"estimate"``: learn one per part, which makes some parts common and
        others rare.
    activation_concentration
        Concentration of the second Dirichlet prior of Dir-Dir, for each part, or ``"estimate"``.
    nonparametric
        Divide ``concentration`` by ``n_components`` (if it is estimated, divide the shape of its gamma prior). Parts
        that are not needed become empty, so choose more parts than you expect.
    init
        Labels that samplers and ``cvb`` start from: ``"random"``, or drawn from a variational fit with ten (``"vb"``)
        or twenty parts (``"vb20"``). ``"mixed"``: of the chains of ``"gibbs"``, a third has ``"vb20"`` and the others
        ``"random"``. Predictions weight chains by how well each predicts observed cells that are left out, because
        chains rarely leave the region in which they start. If this would need more than ``max_memory``, chains count
        the same. Other algorithms start at random.
    n_draws, burn_in, thin
        Draws kept per chain, sweeps discarded before them, and sweeps per kept draw.
    n_chains
        Number of independent chains. Predictions average over all of them (see ``chain_weights_``), which helps more
        than longer chains. The dictionary is that of the likeliest chain.
    max_iter
        Stop after this many iterations, for inference other than sampling. Samplers do ``burn_in + n_draws * thin``
        sweeps. With ``"auto"`` they run until their chains agree (R-hat at most 1.05, effective sample size at least
        100), for at most 5,000 sweeps; each round discards earlier draws.
    tol
        Stop when the objective grows by less than this many nats per observed cell and iteration. For ``cvb0`` and
        ``cvb``, stop when responsibilities change by less than 100 times this on average. 0: run to ``max_iter``.
    batch_size
        Number of samples per batch of stochastic variational Bayes (``inference="vb"``); None = all at once.
    max_memory
        Refuse fits that would need more bytes.
    active_threshold
        A part counts as active from this share of the observed cells on; None = 0.01.
    random_state
        Seed of all random numbers: int, Generator, RandomState or None.
    n_jobs
        Number of threads, for chains or for blocks of rows; it does not change the result. None = 1, -1 = all cores.
    engine, progress, callbacks, checkpoint, resume
        As for `PoissonNMF`.

    Attributes
    ----------
    components_, components_std_
        Parts x features: posterior means and standard deviations of w, from one chain.
    activations_, activations_std_
        Samples x parts: the same for h.
    probabilities_, probabilities_std_
        Samples x features: the same for P(x = 1), over all chains.
    chain_weights_
        Weight of each chain of a sampler in ``probabilities_``, for ``"gibbs"`` with ``init="mixed"``; otherwise equal.
    component_cells_
        Average number of observed cells that each part explains.
    beta_prior_
        Parts x 2: α and β of each part, as given or learned.
    concentration_, activation_concentration_
        One number per part, given or learned. The smaller their sum, the fewer parts a row of the factor has.
    n_components_, n_active_components_, active_components_
        Number of parts; number and positions of those that explain a noticeable share of the data.
    log_joint_draws_, log_likelihood_draws_, n_active_draws_, missing_probability_draws_, total_concentration_draws_
        Chains x draws of samplers: log p(X, labels) given the priors; log-likelihood of the observed cells; number of
        active parts. Then the mean probability of the missing cells (NaN if there are none), and the sum of
        ``concentration_`` (NaN if it was given).
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
        presets={"paper": _PAPER},
        samplers=tuple(_SAMPLERS),
        candidates=(_candidate("dir-beta", 10), _candidate("beta-dir", 20), _candidate("dir-dir", 30)),
        counts_parts_by="active",
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        **CHAIN_CONSTRAINTS,
        "model": [StrOptions(set(KINDS))],
        "inference": [StrOptions(_INFERENCE)],
        "beta_prior": [tuple, list, _ESTIMATE],
        "concentration": [POSITIVE, _ESTIMATE],
        "activation_concentration": [POSITIVE, _ESTIMATE],
        "nonparametric": ["boolean"],
        "init": [StrOptions({"random", "vb", "vb20", "mixed"})],
        "batch_size": [AT_LEAST_1, None],
    }

    n_components: int = 50
    _: KW_ONLY
    init: str = "mixed"
    n_draws: int = 25
    burn_in: int = 150
    thin: int = 4
    n_chains: int = 12
    max_iter: int | str = 500
    tol: float = 1e-6
    batch_size: int | None = None
    max_memory: float = 4e9

    log_joint_draws_: Floats = field(init=False)
    log_likelihood_draws_: Floats = field(init=False)
    n_active_draws_: Floats = field(init=False)
    missing_probability_draws_: Floats = field(init=False)
    total_concentration_draws_: Floats = field(init=False)
    part_agreement_: Floats = field(init=False)

    def _fit(self, data: BinaryMatrix) -> None:
        model = self._binary_model()
        n_cells = data.shape[0] * data.shape[1] - data.n_missing
        pair = model.kind == "dir-dir"
        sizes = self.inference, data.shape, n_cells, model.n_components, self.n_chains
        refuse_beyond(self.max_memory, needed_bytes(*sizes, pair=pair), self.inference)
        weighs = self._start == "mixed" and self.n_chains > 1
        weighs = weighs and needed_bytes(*sizes, pair=pair, weighs_chains=True) <= self.max_memory
        if self.batch_size is not None:
            algorithm = StochasticVariational(model, int(self.batch_size), self._engine())
            state = self._run(algorithm, data, max_iter=self._most_iterations).state
            self._store_online(model.with_priors(state.priors), state.averages, data.shape[0])
            self.activations_ = self._activations(data)
            self._store_cells(data, self.expected(self.activations_))
        elif self.inference in _SAMPLERS:
            self._fit_by_sampling(model, data, weighs)
        elif self.inference in ("em", "map"):
            self._fit_modes(model, data)
        else:
            self._fit_variational(model, data)

    @property
    def _start(self) -> Any:
        """Only the collapsed sampler weights starts."""
        return "random" if self.init == "mixed" and self.inference != "gibbs" else self.init

    def _fit_by_sampling(self, model: BinaryModel, data: BinaryMatrix, weighs: bool) -> None:
        cells = Cells.of(data, model.kind)
        settings = self._sampler_settings(active_threshold=self._active_share(), engine=self._engine())
        algorithm = _SAMPLERS[self.inference](model, self._start, weighs, **settings)
        most = self._most_sweeps(algorithm)
        state: BinaryGibbsState = self._run(algorithm, cells, max_iter=most, convergence=self._chain_rule).state
        algorithm.keep_at_least_one(cells, state)
        self._store(data, posterior_of_draws(model, state.draws))
        draws = state.draws
        self.chain_weights_ = draws.chain_weights()
        self._store_chains(draws, (draws.rows if model.kind == "dir-beta" else draws.columns)[0])

    def _fit_variational(self, model: BinaryModel, data: BinaryMatrix) -> None:
        cells = Cells.of(data, model.kind)
        if self.inference == "vb":
            way = LearningVariationalBayes if model.estimated else BinaryVariationalBayes
            variational = way(model, self._engine())
            state = self._run(variational, cells, max_iter=self._most_iterations, convergence=self._rule(cells)).state
            row_counts = state.row_counts
        else:
            rule = Threshold("change", _CHANGE_PER_TOL * self.tol) if self.tol > 0 else None
            algorithm = BinaryCollapsedVariational(model, 0 if self.inference == "cvb0" else 2, self._start)
            state = self._run(algorithm, cells, max_iter=self._most_iterations, convergence=rule).state
            row_counts = np.moveaxis(state.row_counts, 1, 2)
        self._store(data, posterior_of_counts(model.with_priors(state.priors), row_counts, state.column_counts))

    def _fit_modes(self, model: BinaryModel, data: BinaryMatrix) -> None:
        cells = Cells.of(data, model.kind)
        algorithm = ExpectationMaximisation(model, self.inference == "map", self._engine())
        state = self._run(algorithm, cells, max_iter=self._most_iterations, convergence=self._rule(cells)).state
        self._store(data, posterior_of_factors(model.with_priors(state.priors), cells, state.rows, state.columns))

    def _rule(self, cells: Cells) -> SmallChange | None:
        return small_change(self.tol, max(cells.n_cells, 1))

    def _absorb(self, data: BinaryMatrix, n_batches: int, n_seen: int) -> None:
        """Stochastic variational Bayes."""
        model = self._binary_model()
        first = not self._goes_on()
        if first:
            before, priors = first_averages(self._key(), model, data)
            model = model.with_priors(priors)
        else:
            before, model = self.online_averages_, self._fitted_model()
        averages = absorb(model, before, n_seen, data, self._engine())
        self._forget()
        self._store_online(model, averages, n_seen + data.shape[0])

    def _check_loaded(self) -> None:
        super()._check_loaded()
        check_chains(self.chains())
        if hasattr(self, "chain_weights_"):
            check_array_is(self.chain_weights_, "chain_weights_", (len(self.log_joint_draws_),))
