"""``PoissonNMF``: maximum-likelihood (Kullback-Leibler) nonnegative matrix factorization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions

from partwise.core.convergence import SmallChange
from partwise.core.data import CountMatrix, SparseData
from partwise.core.estimator import COMMON_CONSTRAINTS, checks_parameters
from partwise.core.result import Status, Trace
from partwise.engines.base import Engine
from partwise.errors import InvalidInputError
from partwise.passes.floors import Floors
from partwise.poisson.fitted import PoissonEstimator
from partwise.poisson.inference import by_rows
from partwise.poisson.inference.activations import solve_activations
from partwise.poisson.inference.coordinate import CoordinateDescent
from partwise.poisson.inference.multiplicative import Multiplicative
from partwise.poisson.inference.online import OnlineStatistics, absorb
from partwise.poisson.inference.passes import PoissonSide
from partwise.poisson.inference.state import PoissonState, Start, checked_start, scaled, start_factors
from partwise.poisson.inference.units import usual_size

Floats = NDArray[np.float64]

_ALGORITHMS: dict[str, type[CoordinateDescent] | type[Multiplicative]] = {
    "coordinate": CoordinateDescent,
    "multiplicative": Multiplicative,
}


class PoissonNMF(PoissonEstimator):
    """Find nonnegative parts of counts by maximum likelihood: x_nf ~ Poisson(Σ_k h_nk w_fk).

    The same as NMF with the Kullback-Leibler divergence. Any nonnegative data are accepted, sparse or dense, with
    missing cells (NaN, or a mask in a `Table`), which are left out of the likelihood and not taken for zeros.

    Parameters
    ----------
    n_components
        Number of parts.
    inference
        ``"coordinate"``: coordinate descent with extrapolation, fast. ``"multiplicative"``: EM, that is Lee and
        Seung's updates, monotone and slow.
    init
        ``"random"``, ``"nndsvd"``, or a pair of arrays (activations, components).
    max_iter
        Most iterations.
    tol
        Stop when the log-likelihood grows by less than this many nats per count and iteration. 0: run to ``max_iter``.
    warm_start
        Start `fit` from the components of the last fit.
    active_threshold
        Share of the expected counts from which a component counts as active; None = min(0.01, 0.1 / n_components).
    random_state
        Seed of all random numbers: int, Generator, RandomState or None.
    n_jobs
        Threads; the result is the same for any number. None = 1, -1 = all cores.
    engine
        Where blocks of rows are worked on: None = threads on this machine; ``"dask"``, the address of a Dask scheduler,
        a Dask client or cluster = its workers. The result is the same, to the bit.
    progress
        None: a progress bar on a terminal; True: always; False: never.
    callbacks
        Functions called after each iteration with (iteration, state, trace); returning True stops the fit.
    checkpoint
        File (or `Checkpoint`) to write the running fit to.
    resume
        Go on from ``checkpoint`` if that file exists; the result is that of a fit that was never stopped.

    Attributes
    ----------
    components_
        Components x features; each sums to 1, so activations are expected counts.
    n_components_, n_active_components_, active_components_
        Number of parts; number and positions of those that hold a share worth naming.
    mean_activations_
        Mean over the training samples of the expected counts of each part.
    kkt_residual_
        Largest violation of the optimality conditions; 0 at a stationary point. Only after `fit`.
    n_samples_seen_
        Number of training samples, those of all batches of `partial_fit` together.
    n_iter_, trace_, status_
        Iterations, what was reached at each, and how the fit ended. (If the values of X are beyond 1e60 or below 1e-60
        on average, they are divided by a power of 2 first, and the objective is that of the divided data.)
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        "inference": [StrOptions(set(_ALGORITHMS))],
        "init": [StrOptions({"random", "nndsvd"}), tuple],
        "warm_start": ["boolean"],
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        inference: str = "coordinate",
        init: Start = "random",
        max_iter: int = 1000,
        tol: float = 1e-6,
        warm_start: bool = False,
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
        self.inference = inference
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
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
        cls, components: Any, *, feature_names: Any = None, component_names: Any = None, **parameters: Any
    ) -> Self:
        """An estimator that counts as fitted, with given parts: `transform` refits activations to them.

        Parameters
        ----------
        components
            Components x features, nonnegative; kept as they are, on their own scale.
        feature_names
            Names of the features, checked against the data where these have names.
        component_names
            Names of the parts, which `get_feature_names_out` and the command's tables then show.
        parameters
            Parameters of the estimator.

        Examples
        --------
        >>> from partwise import PoissonNMF
        >>> PoissonNMF.from_components([[1.0, 0.0], [0.0, 1.0]]).transform([[3, 4]]).round(6)
        array([[3., 4.]])
        """
        given = CountMatrix.build(components, integers=False, allow_missing=False, caller="from_components")
        n_components, n_features = given.shape
        extreme = (given.row_sums > 0) & ~((given.row_sums > 1e-250) & (given.row_sums < 1e250))
        if extreme.any():
            k = int(np.argmax(extreme))
            raise InvalidInputError(
                f"Component {k} sums to {given.row_sums[k]:g}: scale it to between 1e-250 and 1e250."
            )
        model = cls(n_components, **parameters)
        model.n_features_in_ = n_features
        model._remember_names(feature_names, component_names)
        model.n_iter_, model.trace_ = 0, Trace()
        model.status_ = Status("converged", "The components were given; there is nothing to fit.")
        model._store_components(given.to_scipy().toarray().T.astype(np.float64), np.ones(n_components))
        model.mean_activations_, model.n_samples_seen_ = np.ones(n_components), 0
        return model

    @checks_parameters
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the parts.

        Parameters
        ----------
        X
            Nonnegative data, samples x features: array, sparse matrix, frame, AnnData or `Table`. NaN is missing.
        y
            Ignored.
        """
        engine = self._engine()
        warm = self.components_ if self.warm_start and hasattr(self, "components_") else None
        data, exponent = usual_size(self._data(X, reset=True, caller="fit"))
        init = self._init(data.shape, exponent) if warm is None else self._warm_init(data, warm, engine)
        algorithm = _ALGORITHMS[self.inference](self.n_components, init, engine)
        rule = SmallChange(self.tol, data.total, patience=2)
        result = self._run(algorithm, data, convergence=rule)
        self._forget_batches()
        self._store(data, result.state, engine)
        self.mean_activations_ = np.ldexp(self.mean_activations_, exponent)
        return self

    def _init(self, shape: tuple[int, int], exponent: int) -> Start:
        if not isinstance(self.init, tuple):
            return self.init
        activations, components = checked_start(self.init, shape, self.n_components)
        return np.ldexp(activations, -exponent), components

    def _warm_init(self, data: SparseData, components: Floats, engine: Engine) -> Start:
        shape = (self.n_components, data.shape[1])
        if components.shape != shape:
            raise InvalidInputError(
                f"warm_start: the components of the last fit have shape {components.shape}, and this fit needs {shape};"
                " set warm_start=False."
            )
        return solve_activations(data, components.T, engine, tol=1e-3), components

    def _store(self, data: SparseData, state: PoissonState, engine: Engine) -> None:
        floors = Floors.of(data, self.n_components)
        if data.by_rows:
            dictionary, totals, self.kkt_residual_ = by_rows.finish(data, engine, state)
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
        self.n_samples_seen_ = data.shape[0]

    def _forget_batches(self) -> None:
        for name in ("online_allocations_", "online_exposure_", "kkt_residual_"):
            if hasattr(self, name):
                delattr(self, name)

    @checks_parameters
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Take in a batch of samples by on-line EM; call it with batch after batch.

        After `fit`, it goes on from the parts that were found, which count as much as the samples they were fitted to.

        Parameters
        ----------
        X
            Some samples, with the same features in every call.
        y
            Ignored.
        """
        data = self._data(X, reset=not hasattr(self, "components_"), caller="partial_fit")
        engine = self._engine()
        with self._compiling():
            before = self._online_statistics(data)
            statistics = absorb(before, data, engine)
        self.n_iter_ = 1 + (self.n_iter_ if hasattr(self, "online_exposure_") else 0)
        self._forget_batches()
        self.online_allocations_, self.online_exposure_ = statistics.allocations, statistics.exposure
        self.n_samples_seen_ = statistics.n_samples
        self.mean_activations_ = statistics.allocations.sum(axis=0)
        self._store_components(statistics.dictionary, self.mean_activations_)
        self.trace_ = Trace()
        self.status_ = Status(
            "stopped", f"Took in {statistics.n_samples} samples, the last by partial_fit; pass more to go on."
        )
        return self

    def _online_statistics(self, data: CountMatrix) -> OnlineStatistics:
        if not hasattr(self, "components_"):
            scaled_data, exponent = usual_size(data)
            init = self._init(data.shape, exponent)
            dictionary = start_factors(self._key(), scaled_data, self.n_components, init).dictionary
            return OnlineStatistics.of_dictionary(dictionary, np.ones(self.n_components), 0)
        self._check_goes_on()
        if hasattr(self, "online_exposure_"):
            return OnlineStatistics(self.online_allocations_, self.online_exposure_, self.n_samples_seen_)
        return OnlineStatistics.of_dictionary(self.components_.T, self.mean_activations_, self.n_samples_seen_)
