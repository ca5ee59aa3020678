"""``PoissonNMF``: maximum-likelihood (Kullback-Leibler) nonnegative matrix factorization."""

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from partwise.contract.batches import BatchModel
from partwise.contract.declaration import Candidate, Declaration
from partwise.contract.model_file import check_array_is
from partwise.contract.parameters import COMMON_CONSTRAINTS
from partwise.core.data import CountMatrix, SparseData
from partwise.core.stopping import small_change
from partwise.engines.base import Engine
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.passes.side import Floors
from partwise.poisson.inference.coordinate import CoordinateDescent
from partwise.poisson.inference.multiplicative import Multiplicative
from partwise.poisson.inference.online import OnlineStatistics, absorb
from partwise.poisson.inference.passes import PoissonSide, finish_by_rows, solve_activations, standard_errors
from partwise.poisson.inference.state import PoissonState, Start, checked_start, scaled, start_factors, usual_size

_ALGORITHMS: dict[str, type[CoordinateDescent] | type[Multiplicative]] = {
    "coordinate": CoordinateDescent,
    "multiplicative": Multiplicative,
}
_OVERFITTED = "to predict, fit fewer parts, or use GammaPoissonNMF or AllocationNMF, whose priors prevent overfitting."


@dataclass(eq=False, repr=False)
class PoissonNMF(BatchModel):
    """Find nonnegative parts of counts by maximum likelihood: x_nf ~ Poisson(Σ_k h_nk w_fk).

    This is NMF with the Kullback-Leibler divergence. Any nonnegative data are accepted, sparse or dense. Missing cells
    (NaN, or a mask in a `Table`) are left out of the likelihood and never treated as zeros.

    Parameters
    ----------
    n_components
        Number of parts.
    inference
        ``"coordinate"``: coordinate descent with extrapolation, fast. ``"multiplicative"``: EM, which is Lee and
        Seung's updates, monotone and slow.
    init
        ``"random"``, ``"nndsvd"``, or a pair of arrays (activations, parts).
    max_iter
        Stop after this many iterations.
    tol
        Stop when the log-likelihood grows by less than this many nats per count and iteration. 0: run to ``max_iter``.
    warm_start
        Start `fit` from the parts of the last fit.
    active_threshold
        A part counts as active from this share of the expected counts on; None = min(0.01, 0.1 / n_components).
    random_state
        Seed of all random numbers: int, Generator, RandomState or None.
    n_jobs
        Number of threads; it does not change the result. None = 1, -1 = all cores.
    engine
        Where blocks of rows are processed: None = threads on this machine; ``"dask"``, the address of a Dask scheduler,
        a Dask client or cluster = its workers. The result is the same, bit for bit.
    progress
        None: a progress bar on a terminal; True: always; False: never.
    callbacks
        Functions called after each iteration with (iteration, state, trace); returning True stops the fit.
    checkpoint
        File (or `Checkpoint`) to which the running fit is written.
    resume
        Continue from ``checkpoint`` if that file exists. The result is that of an uninterrupted fit.

    Attributes
    ----------
    components_
        Parts x features; each sums to 1, so activations are expected counts.
    n_components_, n_active_components_, active_components_
        Number of parts; number and positions of those that explain a noticeable share of the data.
    mean_activations_
        Mean over the training samples of the expected counts of each part.
    kkt_residual_
        Largest violation of the optimality conditions; 0 at a stationary point. Only after `fit`.
    batch_names_, batch_factors_, batch_strength_
        Batches, their factors (batches x features), and the strength of the prior that shrinks factors towards 1. Only
        after `fit` with ``batch``.
    n_samples_seen_
        Number of training samples, including all batches of `partial_fit`.
    n_iter_, trace_, status_
        Number of iterations, what each reached, and how the fit ended. (If the values of X are beyond 1e60 or below
        1e-60 on average, they are first divided by a power of 2, and the objective is that of the divided data.)
    n_features_in_, feature_names_in_
        Features of the training data.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import PoissonNMF
    >>> X = np.outer([1, 2, 3, 0], [4, 0, 2]) + np.outer([0, 1, 0, 5], [0, 3, 1])
    >>> model = PoissonNMF(2, random_state=0).fit(X)
    >>> bool(np.allclose(model.inverse_transform(model.transform(X)), X, atol=0.05))
    True
    """

    declares: ClassVar[Declaration] = Declaration(
        data="nonnegative",
        given_parts=True,
        batches=True,
        papers=(
            "Lee, D. D. & Seung, H. S. (2001). Algorithms for non-negative matrix factorization. Advances in Neural "
            "Information Processing Systems 13.",
        ),
        candidates=(
            Candidate("poisson", effort={"tol": 1e-5}, complexity=10, cost=1),
            Candidate("poisson", effort={"tol": 1e-5}, data="bits", complexity=90, cost=1),
        ),
    )
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        "inference": [StrOptions(set(_ALGORITHMS))],
        "init": [StrOptions({"random", "nndsvd"}), tuple],
        "warm_start": ["boolean"],
    }

    _: KW_ONLY
    inference: str = "coordinate"
    init: Start = "random"
    max_iter: int = 1000
    tol: float = 1e-6
    warm_start: bool = False

    kkt_residual_: float = field(init=False)
    mean_activations_: Floats = field(init=False)
    online_allocations_: Floats = field(init=False)
    online_exposure_: Floats = field(init=False)

    def _take_components(self, dictionary: Floats) -> None:
        sums = dictionary.sum(axis=0)
        extreme = (sums > 0) & ~((sums > 1e-250) & (sums < 1e250))
        if extreme.any():
            k = int(np.argmax(extreme))
            raise InvalidInputError(f"Part {k} sums to {sums[k]:g}: scale it to between 1e-250 and 1e250.")
        self._store_components(dictionary, np.ones(dictionary.shape[1]))
        self.mean_activations_ = np.ones(dictionary.shape[1])

    def _regroup(self, fitted: Any, membership: Floats, dictionary: Floats) -> None:
        self.mean_activations_ = fitted.mean_activations_ @ membership
        self._store_components(dictionary, fitted.part_weights_ @ membership)

    def _fit(self, data: CountMatrix) -> None:
        engine = self._engine()
        warm = self.components_ if self.warm_start and hasattr(self, "components_") else None
        usual, exponent = usual_size(data)
        init = self._init(usual.shape, exponent) if warm is None else self._warm_init(usual, warm, engine)
        algorithm = _ALGORITHMS[self.inference](self.n_components, init, engine)
        rule = small_change(self.tol, usual.total)
        result = self._run(algorithm, usual, max_iter=self.max_iter, convergence=rule)
        self._store(self._weighted(usual), result.state, engine)
        self.mean_activations_ = np.ldexp(self.mean_activations_, exponent)
        n_free = int(self.n_components) * (sum(data.shape) - 1)
        if data.is_integer and n_free > data.total:
            told = f"there are more free parameters ({n_free:,}) than counts ({data.total:,.0f}): {_OVERFITTED}"
            self.status_ = replace(self.status_, message=f"{self.status_.message} But {told}")

    def _init(self, shape: tuple[int, int], exponent: int) -> Start:
        if not isinstance(self.init, tuple):
            return self.init
        activations, components = checked_start(self.init, shape, self.n_components)
        return np.ldexp(activations, -exponent), components

    def _warm_init(self, data: SparseData, components: Floats, engine: Engine) -> Start:
        shape = (self.n_components, data.shape[1])
        if components.shape != shape:
            raise InvalidInputError(
                f"warm_start: the parts of the last fit have shape {components.shape}, and this fit needs {shape};"
                " set warm_start=False."
            )
        return solve_activations(data, components.T, engine, tol=1e-3), components

    def _store(self, data: SparseData, state: PoissonState, engine: Engine) -> None:
        floors = Floors.of(data, self.n_components)
        if data.by_rows:
            dictionary, totals, self.kkt_residual_ = finish_by_rows(data, engine, state)
            means = totals / data.shape[0]
        else:
            state = scaled(np.asarray(state.activations), state.dictionary, floors)
            self.kkt_residual_ = max(
                PoissonSide(data, engine).kkt_residual(state.activations, state.dictionary),
                PoissonSide(data.transposed, engine).kkt_residual(state.dictionary, state.activations),
            )
            dictionary, totals, means = state.dictionary, state.activations.sum(axis=0), state.activations.mean(axis=0)
        # Entries at the floor stand for zeros.
        dictionary[dictionary <= 2 * floors.dictionary[:, None]] = 0.0
        self._store_components(dictionary, totals)
        self.mean_activations_ = means

    def _absorb(self, data: CountMatrix, n_batches: int, n_seen: int) -> None:
        statistics = absorb(self._online_statistics(data), data, self._engine())
        self._forget()
        self.online_allocations_, self.online_exposure_ = statistics.allocations, statistics.exposure
        self.mean_activations_ = statistics.allocations.sum(axis=0)
        self._store_components(statistics.dictionary, self.mean_activations_)

    def _online_statistics(self, data: CountMatrix) -> OnlineStatistics:
        if not hasattr(self, "components_"):
            scaled_data, exponent = usual_size(data)
            init = self._init(data.shape, exponent)
            dictionary = start_factors(self._key(), scaled_data, self.n_components, init).dictionary
            return OnlineStatistics.of_dictionary(dictionary, np.ones(self.n_components), 0)
        if hasattr(self, "online_exposure_"):
            return OnlineStatistics(self.online_allocations_, self.online_exposure_, self.n_samples_seen_)
        return OnlineStatistics.of_dictionary(self.components_.T, self.mean_activations_, self.n_samples_seen_)

    def _activations(self, data: CountMatrix) -> Floats:
        return solve_activations(data, self.components_.T, self._engine())

    def activation_errors(self, X: Any) -> Floats:
        """Poisson standard errors of the activations that `transform` gives, with the parts taken as known.

        Parameters
        ----------
        X
            Data as for `fit`.

        Returns
        -------
        ndarray
            Samples x parts; infinite if a sample's observed cells cannot tell. For an activation below one expected
            count, read it as the size that an activation must have to be noticed.
        """
        if self.selects_parts:
            return self.presence(X).std
        data = self.checked_data(X, caller="activation_errors")
        engine, dictionary = self._engine(), self.components_.T
        with self._compiling():
            return standard_errors(data, solve_activations(data, dictionary, engine), dictionary, engine)

    def facts(self) -> dict[str, float]:
        """How far the fit is from a stationary point."""
        return {"KKT residual": self.kkt_residual_} if hasattr(self, "kkt_residual_") else {}

    def _check_loaded(self) -> None:
        super()._check_loaded()
        check_array_is(self.mean_activations_, "mean_activations_", (self.n_components_,))
        if not isinstance(getattr(self, "kkt_residual_", 0.0), float):
            raise ValueError("its kkt_residual_ is not a number")
        if hasattr(self, "online_exposure_") or hasattr(self, "online_allocations_"):
            shape = (self.n_features_in_, self.n_components_)
            check_array_is(self.online_allocations_, "online_allocations_", shape)
            check_array_is(self.online_exposure_, "online_exposure_", shape)
