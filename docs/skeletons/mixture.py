"""A small family on every floor: each sample comes from one part alone (a mixture of Poisson profiles).

In the package this file would be a folder, ``partwise/mixture/``, with one file for each section.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from partwise.core.convergence import SmallChange
from partwise.core.data import CountMatrix
from partwise.core.estimator import FactorizationEstimator, checks_parameters
from partwise.core.keys import Key
from partwise.engines import Engine, resolve_engine, row_blocks
from partwise.kernels.jit import kernel

Floats = NDArray[np.float64]


# --8<-- [start:kernels]
@kernel
def responsibilities(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[Any],
    log_dictionary: Floats,
    log_weights: Floats,
    start: int,
    stop: int,
    out: Floats,
) -> float:
    """``out = softmax(X @ log_dictionary + log_weights, axis=1)``; returns the sum over rows of the log normaliser."""
    total = 0.0
    for n in range(start, stop):
        scores = out[n]
        scores[:] = log_weights
        for p in range(indptr[n], indptr[n + 1]):
            for k in range(scores.size):
                scores[k] += values[p] * log_dictionary[indices[p], k]
        largest = scores.max()
        norm = 0.0
        for k in range(scores.size):
            scores[k] = np.exp(scores[k] - largest)
            norm += scores[k]
        for k in range(scores.size):
            scores[k] /= norm
        total += largest + np.log(norm)
    return total


@kernel
def feature_counts(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[Any],
    shares: Floats,
    start: int,
    stop: int,
    out: Floats,
) -> None:
    """``out = X @ shares`` on transposed data: a feature's sum over samples has one order, whoever computes it."""
    for f in range(start, stop):
        counts = out[f]
        counts[:] = 0.0
        for p in range(indptr[f], indptr[f + 1]):
            for k in range(counts.size):
                counts[k] += values[p] * shares[indices[p], k]
    # --8<-- [end:kernels]


# --8<-- [start:model]
@dataclass(frozen=True)
class MixtureModel:
    """z_n ~ Categorical(weights);  x_nf ~ Poisson(length_n w_fk) with k = z_n; dictionary columns sum to 1."""

    weights: Floats
    dictionary: Floats

    def simulate(self, key: Key, lengths: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Counts drawn from the model, and the part that each sample came from."""
        rng = key.for_stage("simulate").generator()
        parts = rng.choice(self.weights.size, size=lengths.size, p=self.weights)
        return rng.poisson(lengths[:, None] * self.dictionary[:, parts].T), parts
        # --8<-- [end:model]


# --8<-- [start:algorithm]
@dataclass
class MixtureState:
    """All that changes from one iteration to the next: arrays, so that a checkpoint can hold it."""

    weights: Floats
    dictionary: Floats


@dataclass
class ExpectationMaximisation:
    """EM: the share of each part in each sample, then the weights and profiles that these shares give."""

    n_components: int
    smoothing: float
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: CountMatrix) -> MixtureState:
        """Even weights, and the features' own frequencies with noise: equal profiles would stay equal for ever."""
        noise = key.for_stage("init").generator().exponential(size=(data.shape[1], self.n_components))
        dictionary = (data.column_sums[:, None] + self.smoothing) * (noise + 3.0)
        return MixtureState(np.full(self.n_components, 1 / self.n_components), dictionary / dictionary.sum(axis=0))

    def step(self, key: Key, data: CountMatrix, state: MixtureState) -> tuple[MixtureState, Mapping[str, float]]:
        """One iteration; the objective is that of the state that came in, which EM cannot lower (but for smoothing)."""
        shares, objective = expected_shares(data, state, self.engine)
        by_feature = data.transposed
        counts = np.empty_like(state.dictionary)

        def one(block: tuple[int, int]) -> None:
            feature_counts(by_feature.indptr, by_feature.indices, by_feature.values, shares, *block, counts)

        self.engine.for_each(one, row_blocks(by_feature.indptr))
        counts += self.smoothing
        return MixtureState(shares.mean(axis=0), counts / counts.sum(axis=0)), {"objective": objective}


def expected_shares(data: CountMatrix, state: MixtureState, engine: Engine) -> tuple[Floats, float]:
    """Posterior probability of each part for each sample, and the log-likelihood up to a constant of the data."""
    shares = np.empty((data.shape[0], state.weights.size))
    with np.errstate(divide="ignore"):
        log_dictionary, log_weights = np.log(state.dictionary), np.log(state.weights)

    def one(block: tuple[int, int]) -> float:
        return responsibilities(data.indptr, data.indices, data.values, log_dictionary, log_weights, *block, shares)

    objective = engine.map_reduce(one, row_blocks(data.indptr))
    return shares, float(objective)
    # --8<-- [end:algorithm]


# --8<-- [start:estimator]
class PoissonMixture(FactorizationEstimator):
    """Group samples by the one part that each comes from: validate, build, run, store, and nothing else."""

    def __init__(
        self,
        n_components: int = 10,
        *,
        max_iter: int = 500,
        tol: float = 1e-8,
        active_threshold: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        engine: Any = None,
        progress: bool | None = None,
        callbacks: tuple[Any, ...] = (),
        checkpoint: Any = None,
        resume: bool = False,
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.active_threshold = active_threshold
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.engine = engine
        self.progress = progress
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.resume = resume

    def _data(self, X: Any, *, reset: bool) -> CountMatrix:
        data = CountMatrix.build(X, caller=type(self).__name__, allow_missing=False, allow_all_zero=not reset)
        self._check_columns(X, data, reset=reset)
        return data

    @checks_parameters
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the profiles."""
        data = self._data(X, reset=True)
        engine = resolve_engine(self.engine, self.n_jobs)
        algorithm = ExpectationMaximisation(self.n_components, smoothing=1e-3, engine=engine)
        result = self._run(algorithm, data, convergence=SmallChange(self.tol, data.total, patience=2))
        self.weights_ = result.state.weights
        self._store_components(result.state.dictionary, self.weights_)
        return self

    def transform(self, X: Any) -> Floats:
        """Posterior probability of each part for each sample."""
        check_is_fitted(self, "components_")
        state = MixtureState(self.weights_, np.ascontiguousarray(self.components_.T))
        shares, _ = expected_shares(self._data(X, reset=False), state, resolve_engine(self.engine, self.n_jobs))
        return shares
        # --8<-- [end:estimator]


# --8<-- [start:check]
def check() -> None:
    """Planted parts are found, the likelihood does not fall, and threads change no bit."""
    rng = np.random.default_rng(0)
    truth = MixtureModel(np.array([0.5, 0.3, 0.2]), rng.dirichlet(np.full(30, 0.3), size=3).T)
    X, parts = truth.simulate(Key(1), lengths=np.full(300, 40.0))

    model = PoissonMixture(3, random_state=0).fit(X)
    found = model.transform(X).argmax(axis=1)
    named = {part: np.bincount(found[parts == part], minlength=3).argmax() for part in range(3)}
    assert sorted(named.values()) == [0, 1, 2]
    assert np.mean([named[part] for part in parts] == found) > 0.98

    _, objective = model.trace_.evaluated("objective")
    assert np.all(np.diff(objective) >= -1e-6 * np.abs(objective[1:]))
    assert model.status_.converged

    # enough data for several blocks, so that two threads have something to share
    many = np.tile(X, (40, 1))
    one, two = (PoissonMixture(3, random_state=0, n_jobs=n).fit(many).components_ for n in (1, 2))
    assert one.tobytes() == two.tobytes()
    # --8<-- [end:check]
