"""A small but complete family: each sample comes from one part alone (a mixture of Poisson profiles).

The page "Adding a model" shows this file, and a test installs it as a distribution of its own.
"""

# --8<-- [start:imports]
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from partwise.contract import Candidate, CountModel, Declaration, HiddenCells, ThinnedCounts
from partwise.contract.heldout import SMOOTHING, Background
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.core.stopping import small_change
from partwise.engines import Engine, row_blocks
from partwise.kernels.jit import kernel

Floats = NDArray[np.float64]
# --8<-- [end:imports]


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
    """``out = X @ shares`` on transposed data: a feature's sum over samples has one order on any thread."""
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
@dataclass(eq=False, repr=False)
class PoissonMixture(CountModel):
    """Group samples by the one part that each comes from."""

    declares: ClassVar[Declaration] = Declaration(
        data="counts",
        missing="no",
        papers=("Someone (2026). Mixtures of Poisson profiles.",),
        candidates=(Candidate("poisson-mixture", effort={"tol": 1e-6}, complexity=15, cost=1),),
    )

    _: KW_ONLY
    max_iter: int = 500
    tol: float = 1e-8

    weights_: Floats = field(init=False)

    def _fit(self, data: CountMatrix) -> None:
        algorithm = ExpectationMaximisation(self.n_components, smoothing=1e-3, engine=self._engine())
        rule = small_change(self.tol, data.total)
        state = self._run(algorithm, data, max_iter=self.max_iter, convergence=rule).state
        self.weights_ = state.weights
        self._store_components(state.dictionary, self.weights_)

    def _shares(self, data: CountMatrix) -> Floats:
        state = MixtureState(self.weights_, np.ascontiguousarray(self.components_.T))
        return expected_shares(data, state, self._engine())[0]

    def _activations(self, data: CountMatrix) -> Floats:
        """Probability of each part times the sample's length: expected counts, because each part sums to 1."""
        return self._shares(data) * data.row_sums[:, None]
        # --8<-- [end:estimator]

    # --8<-- [start:likelihood]
    def held_out_log_likelihood(self, held_out: ThinnedCounts | HiddenCells) -> Floats:
        """Log-likelihood of held-out counts: each part explains all counts of a sample, or none."""
        if isinstance(held_out, HiddenCells):
            return super().held_out_log_likelihood(held_out)
        train = self.checked_data(held_out.train, caller="compare")
        background = Background.of(held_out.train).column_shares
        profiles = (1.0 - SMOOTHING) * self.components_.T + SMOOTHING * background[:, None]
        lengths = held_out.odds * (train.row_sums + 0.5)
        counts = held_out.held_out
        by_part = counts @ np.log(profiles) - (lengths * profiles.sum(axis=0)[:, None]).T
        totals = np.asarray(counts.sum(axis=1)) * np.log(lengths)
        constants = np.asarray(sp.csr_array((gammaln(counts.data + 1.0), counts.indices, counts.indptr)).sum(axis=1))
        with np.errstate(divide="ignore"):
            log_shares = np.log(self._shares(train))
        return np.asarray(logsumexp(by_part + log_shares, axis=1) + totals - constants)
        # --8<-- [end:likelihood]


# --8<-- [start:check]
def check() -> None:
    """Planted parts are found, the likelihood does not fall, and threads do not change the result."""
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
