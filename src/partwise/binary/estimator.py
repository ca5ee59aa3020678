"""``BinaryNMF``: nonnegative factorization of bits without a link function, with priors that switch off spare parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from partwise.binary.inference.activations import Way, activations_of
from partwise.binary.inference.batches import StochasticVariational, absorb, first_averages
from partwise.binary.inference.cells import Cells, needed_bytes, refuse_beyond
from partwise.binary.inference.collapsed_variational import BinaryCollapsedVariational
from partwise.binary.inference.em import ExpectationMaximisation
from partwise.binary.inference.gibbs import BinaryCollapsedGibbs, BinaryGibbsState
from partwise.binary.inference.learning import LearningVariationalBayes
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
from partwise.binary.inference.variational import BinaryVariationalBayes
from partwise.binary.model import KINDS, BinaryModel, Estimated, Priors
from partwise.contract.bits import BitModel, Floats, checked_cells
from partwise.contract.declaration import Candidate, Declaration
from partwise.contract.estimator import AT_LEAST_0, AT_LEAST_1, COMMON_CONSTRAINTS, POSITIVE
from partwise.contract.model_file import check_array_is
from partwise.core.data import BinaryMatrix
from partwise.core.stopping import SmallChange, Threshold, small_change
from partwise.errors import InvalidInputError
from partwise.sampling.agreement import check_chains
from partwise.sampling.chains import AUTO, KeepsChains

_ESTIMATE = StrOptions({"estimate"})
# Where learning starts: parts that are rather sure of what they show.
_FIRST_BETA = 0.5
_SAMPLERS = {"gibbs": BinaryCollapsedGibbs, "gibbs-partial": BinaryPartialGibbs}
_INFERENCE = {*_SAMPLERS, "cvb0", "cvb", "vb", "em", "map"}
_WAYS: dict[str, Way] = {"gibbs": "sample", "gibbs-partial": "sample", "em": "mode", "map": "mode"}
# The mean change of responsibilities is compared with this many times tol: it is no objective, and shrinks slowly.
_CHANGE_PER_TOL = 100.0
# Comparisons of many numbers of parts have fewer chains to average over.
_EFFORT = {"n_chains": 2}


# Lumbreras et al. (2020), Section 6: flat priors, one long chain from random labels.
_PAPER = {
    "n_components": 100,
    "model": "beta-dir",
    "beta_prior": (1.0, 1.0),
    "concentration": 1.0,
    "activation_concentration": 1.0,
    "n_chains": 1,
    "burn_in": 4000,
    "n_draws": 1000,
    "thin": 1,
}


def _candidate(kind: str, complexity: int) -> Candidate:
    return Candidate(kind, {"model": kind}, _EFFORT, data="bits", complexity=complexity)


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
        α and β of the beta prior, the same for all parts. ``"estimate"``: learn a pair for each part.
    concentration
        Of the Dirichlet prior (for Dir-Dir that of the dictionary), of all parts together if ``nonparametric``, else of
        each. ``"estimate"``: learn one for each part, which makes some parts common and others rare.
    activation_concentration
        Of the second Dirichlet prior of Dir-Dir, for each part, or ``"estimate"``.
    nonparametric
        Divide ``concentration`` by ``n_components`` (if it is estimated, the shape of its gamma prior): parts that are
        not needed empty out, so take more than you expect.
    init
        Labels that samplers and ``cvb`` start from: ``"random"``, or ``"vb"``, drawn from a variational fit with ten
        parts.
    n_draws, burn_in, thin
        Draws that each chain keeps, sweeps that it throws away before, and sweeps for each draw that is kept.
    n_chains
        Independent chains; predictions are averages over all of them, which is worth more than longer chains. The
        dictionary is that of the likeliest.
    max_iter
        Most iterations, where inference is not sampling. Samplers do ``burn_in + n_draws * thin`` sweeps. With
        ``"auto"`` they go on until their chains agree (R-hat at most 1.05, effective sample size at least 100), for
        5,000 sweeps at most; then each round throws away the draws before it.
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
    beta_prior_
        Components x 2: α and β of each part, as given or learned.
    concentration_, activation_concentration_
        One number for each part, as given or learned. Sums say how few parts a row of the factor has.
    n_components_, n_active_components_, active_components_
        Number of parts; number and positions of those that hold a share worth naming.
    log_joint_draws_, log_likelihood_draws_, n_active_draws_, missing_probability_draws_, total_concentration_draws_
        Chains x draws, of samplers: log p(X, labels) given the priors; log-likelihood of the observed cells; active
        parts; mean probability of the missing cells (NaN if there are none); sum of ``concentration_`` (NaN if it was
        given).
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
        candidates=(_candidate("dir-beta", 10), _candidate("beta-dir", 20), _candidate("dir-dir", 30)),
        counts_parts_by="active",
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        "model": [StrOptions(set(KINDS))],
        "inference": [StrOptions(_INFERENCE)],
        "beta_prior": [tuple, list, _ESTIMATE],
        "concentration": [POSITIVE, _ESTIMATE],
        "activation_concentration": [POSITIVE, _ESTIMATE],
        "nonparametric": ["boolean"],
        "init": [StrOptions({"random", "vb"})],
        "max_iter": [AT_LEAST_0, AUTO],
        "n_draws": [AT_LEAST_1],
        "burn_in": [AT_LEAST_0],
        "thin": [AT_LEAST_1],
        "n_chains": [AT_LEAST_1],
        "batch_size": [AT_LEAST_1, None],
        "max_memory": [POSITIVE],
    }

    n_components: int = 50
    _: KW_ONLY
    model: str = "dir-beta"
    inference: str = "gibbs"
    beta_prior: Sequence[float] | str = "estimate"
    concentration: float | str = "estimate"
    activation_concentration: float | str = "estimate"
    nonparametric: bool = True
    init: str = "random"
    n_draws: int = 25
    burn_in: int = 150
    thin: int = 4
    n_chains: int = 8
    max_iter: int | str = 500
    tol: float = 1e-6
    batch_size: int | None = None
    max_memory: float = 4e9

    components_std_: Floats = field(init=False)
    activations_: Floats = field(init=False)
    activations_std_: Floats = field(init=False)
    component_cells_: Floats = field(init=False)
    beta_prior_: Floats = field(init=False)
    concentration_: Floats = field(init=False)
    activation_concentration_: Floats = field(init=False)
    online_averages_: Floats = field(init=False)
    probabilities_std_: Floats = field(init=False)
    log_joint_draws_: Floats = field(init=False)
    log_likelihood_draws_: Floats = field(init=False)
    n_active_draws_: Floats = field(init=False)
    missing_probability_draws_: Floats = field(init=False)
    total_concentration_draws_: Floats = field(init=False)
    part_agreement_: Floats = field(init=False)

    def _binary_model(self) -> BinaryModel:
        given: Any = self.beta_prior
        prior = (_FIRST_BETA, _FIRST_BETA) if given == "estimate" else tuple(given)
        if len(prior) != 2 or not all(isinstance(part, Real) and 0 < part < np.inf for part in prior):  # type: ignore[operator]
            raise InvalidInputError(f"beta_prior must be two positive numbers (alpha, beta), got {self.beta_prior!r}.")
        if self.model == "dir-dir" and self.inference in ("cvb0", "cvb", "gibbs-partial"):
            raise InvalidInputError(
                f"inference={self.inference!r} needs a beta factor, which model='dir-dir' has not: use 'gibbs', 'vb' or"
                " 'em', or another model."
            )
        if self.batch_size is not None and self.inference != "vb":
            raise InvalidInputError(f"batch_size is for inference='vb', not for {self.inference!r}: leave it None.")
        share = 1.0 / self.n_components if self.nonparametric else 1.0
        concentration, own = self.concentration, self.activation_concentration
        kinds: dict[Estimated, bool] = {
            "beta": given == "estimate" and self.model != "dir-dir",
            "concentration": concentration == "estimate",
            "activation_concentration": own == "estimate" and self.model == "dir-dir",
        }
        return BinaryModel(
            cast(Any, self.model),
            int(self.n_components),
            alpha=float(prior[0]),
            beta=float(prior[1]),
            concentration=share if isinstance(concentration, str) else concentration * share,
            activation_concentration=share if isinstance(own, str) else own,
            estimated=() if self.inference == "em" else tuple(name for name, wanted in kinds.items() if wanted),
            concentration_shape=share,
        )

    def _fitted_model(self) -> BinaryModel:
        """The model with the priors that were given or learned: new samples are looked at with it."""
        learned = (*self.beta_prior_.T, self.concentration_, self.activation_concentration_)
        return replace(self._binary_model(), n_components=self.n_components_).with_priors(np.array(learned))

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
        most = self._most_sweeps(algorithm)
        state: BinaryGibbsState = self._run(algorithm, cells, max_iter=most, convergence=self._chain_rule).state
        algorithm.keep_at_least_one(cells, state)
        self._store(data, posterior_of_draws(model, state.draws))
        draws = state.draws
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
            algorithm = BinaryCollapsedVariational(model, 0 if self.inference == "cvb0" else 2, cast(Any, self.init))
            state = self._run(algorithm, cells, max_iter=self._most_iterations, convergence=rule).state
            row_counts = np.moveaxis(state.row_counts, 1, 2)
        self._store(data, posterior_of_counts(model.with_priors(state.priors), row_counts, state.column_counts))

    def _fit_modes(self, model: BinaryModel, data: BinaryMatrix) -> None:
        cells = Cells.of(data, model.kind)
        algorithm = ExpectationMaximisation(model, self.inference == "map", self._engine())
        state = self._run(algorithm, cells, max_iter=self._most_iterations, convergence=self._rule(cells)).state
        self._store(data, posterior_of_factors(model.with_priors(state.priors), cells, state.rows, state.columns))

    def _fit_in_batches(self, model: BinaryModel, data: BinaryMatrix) -> None:
        algorithm = StochasticVariational(model, int(cast(int, self.batch_size)), self._engine())
        state = self._run(algorithm, data, max_iter=self._most_iterations).state
        self._store_online(model.with_priors(state.priors), state.averages, data.shape[0])
        self.activations_ = self._activations(data)
        self._store_cells(data, self.expected(self.activations_))

    def _rule(self, cells: Cells) -> SmallChange | None:
        return small_change(self.tol, max(cells.n_cells, 1))

    def _takes_batches(self) -> bool:
        if self.inference != "vb":
            raise AttributeError(f"partial_fit needs inference='vb', and this model has {self.inference!r}: set it.")
        return True

    def _goes_on(self) -> bool:
        return hasattr(self, "online_averages_")

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

    def _activations(self, data: BinaryMatrix) -> Floats:
        way, model = _WAYS.get(self.inference, "variational"), self._fitted_model()
        if self.inference == "em":
            model = model.with_priors(np.zeros((len(model.priors), model.n_components)))
        return activations_of(data, model, self.components_.T.copy(), way, self._engine())

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
            moments, shares = beta_moments(counts, model.priors.alpha, model.priors.beta), counts.sum(axis=(0, 2))
        else:
            moments, shares = dirichlet_moments(counts, model.priors.concentration), counts.sum(axis=0)
        self._store_dictionary(moments.mean, np.sqrt(moments.variance), shares)
        self._store_priors(model.priors)

    def _store(self, data: BinaryMatrix, posterior: Posterior) -> None:
        self._store_cells(data, posterior.probability)
        self._store_dictionary(posterior.dictionary, posterior.dictionary_std, posterior.component_cells)
        self._store_priors(posterior.priors)
        self.activations_ = posterior.activations
        if posterior.activations_std is not None and posterior.probability_std is not None:
            self.activations_std_, self.probabilities_std_ = posterior.activations_std, posterior.probability_std

    def _store_dictionary(self, dictionary: Floats, std: Floats | None, component_cells: Floats) -> None:
        self._store_components(dictionary, component_cells)
        if std is not None:
            self.components_std_ = np.ascontiguousarray(std.T)
        self.component_cells_ = component_cells

    def _store_priors(self, priors: Priors) -> None:
        self.beta_prior_ = np.stack((priors.alpha, priors.beta), axis=1)
        self.concentration_ = priors.concentration
        self.activation_concentration_ = priors.activation_concentration

    def facts(self) -> Mapping[str, float]:
        """Priors that were learned: α and β of the average cell's part, and concentrations of all parts together."""
        learned = self._binary_model().estimated
        share = self.component_cells_ / max(float(self.component_cells_.sum()), 1.0)
        found: dict[str, float] = {}
        if "beta" in learned:
            alpha, beta = share @ self.beta_prior_
            found |= {"α of the beta prior": float(alpha), "β of the beta prior": float(beta)}
        if "concentration" in learned:
            found["concentration"] = float(self.concentration_.sum())
        if "activation_concentration" in learned:
            found["concentration of the activations"] = float(self.activation_concentration_.sum())
        return found

    def _check_loaded(self) -> None:
        super()._check_loaded()
        check_array_is(self.beta_prior_, "beta_prior_", (self.n_components_, 2))
        for name in ("concentration_", "activation_concentration_"):
            check_array_is(getattr(self, name), name, (self.n_components_,))
        if not np.all((self.components_ >= 0) & (self.components_ <= 1)):
            raise ValueError("its components are not probabilities")
        if hasattr(self, "online_averages_"):
            n_dimensions = self.online_averages_.ndim
            shape = (self.n_features_in_, self.n_components_, 2)[:n_dimensions]
            check_array_is(self.online_averages_, "online_averages_", shape)
        check_chains(self.chains())
