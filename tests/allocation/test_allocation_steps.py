"""Steps of the allocation model beside plain NumPy: annealed and variational sweeps, draws that are kept, particles."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma, gammaln, logsumexp

from partwise.allocation.inference.annealed import AnnealedGibbs
from partwise.allocation.inference.collapsed_variational import AllocationCollapsedVariational, ResponsibilityState
from partwise.allocation.inference.decomposition import _moved, _ratio
from partwise.allocation.inference.distributed import DistributedGibbs
from partwise.allocation.inference.gibbs import AllocationCollapsedGibbs
from partwise.allocation.inference.labels import first_feature_counts
from partwise.allocation.inference.marginal import _log_orders, anchors, log_all_orders, no_particles, tokens_of
from partwise.allocation.inference.partial import AllocationPartialGibbs
from partwise.allocation.inference.variational import AllocationVariationalBayes, absorb
from partwise.allocation.kernels.collapsed import sweep_annealed
from partwise.allocation.kernels.particles import bridge_island, log_mean_weight, log_permanent, smc_island
from partwise.allocation.model import AllocationModel
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.engines import resolve_engine
from partwise.engines.blocks import first_tokens
from replay import Uniforms, choice

ENGINE = resolve_engine()
ALPHA, BETA = np.array([0.4, 1.3, 0.8, 0.2, 0.6]), np.array([0.5, 1.6, 0.9])
MODEL = AllocationModel(5, 3, ALPHA, BETA, 3.0, 0.7)
COUNTS = np.array([[2, 0, 1, 3, 0], [0, 1, 2, 0, 4], [0, 0, 0, 0, 0], [1, 1, 0, 2, 5]])
DATA = CountMatrix.build(COUNTS)
ROWS, FEATURES = (np.repeat(index, COUNTS.ravel()) for index in np.indices(COUNTS.shape).reshape(2, -1))


def allocated(labels: np.ndarray) -> np.ndarray:
    """S_nfk of the labels of tokens; -1 is none."""
    out = np.zeros((4, 5, 3))
    np.add.at(out, (ROWS[labels >= 0], FEATURES[labels >= 0], labels[labels >= 0]), 1)
    return out


# Annealing.


@pytest.mark.parametrize("coldness", [1.0, 2.5, np.inf])
def test_an_annealed_sweep_is_the_textbook_one(rng: np.random.Generator, coldness: float) -> None:
    key = Key(7, stage=3, chain=1, iteration=5)
    labels = rng.integers(3, size=ROWS.size)
    before = allocated(labels)
    own = labels.astype(np.uint8)
    counts = [before.sum(axis=1).astype(np.int32), before.sum(axis=0).astype(np.int32)]
    listed = DATA.indptr, DATA.indices, DATA.values, first_tokens(DATA)
    components = counts[1].sum(axis=0, dtype=np.int64)
    logs = sweep_annealed(listed, (ALPHA, BETA), coldness, key.words, (own, *counts, components))
    for n in range(4):
        uniforms = Uniforms(key.words, n)
        for i in np.flatnonzero(n == ROWS):
            old, labels[i] = labels[i], -1
            s, f = allocated(labels), FEATURES[i]
            gains = (ALPHA[f] + s[:, f].sum(axis=0)) / (ALPHA.sum() + s.sum(axis=(0, 1)))
            gains = gains * (BETA + s[n].sum(axis=0)) / (s[n, f] + 1.0)
            if np.isinf(coldness):
                labels[i] = old if gains[old] >= gains.max() * (1 - 1e-9) else gains.argmax()
            else:
                labels[i] = choice((gains / gains.max()) ** coldness * (s[n, f] + 1.0), uniforms.next())
    np.testing.assert_array_equal(own, labels)
    s = allocated(labels)
    np.testing.assert_array_equal(counts[0], s.sum(axis=1))
    np.testing.assert_array_equal(counts[1], s.sum(axis=0))
    np.testing.assert_array_equal(components, s.sum(axis=(0, 1)))
    assert logs == pytest.approx(gammaln(s + 1.0).sum())


def test_cooling_begins_late_and_ends_in_an_ascent() -> None:
    algorithm = AnnealedGibbs(MODEL, n_sweeps=20, n_chains=2, engine=ENGINE)
    state = algorithm.init(Key(1), DATA)
    coldness, objective = [], []
    for iteration in range(1, 21):
        state, info = algorithm.step(Key(1).at(iteration), DATA, state)
        coldness.append(info["coldness"])
        reached = [MODEL.log_allocation(allocated(labels.astype(int))) for labels in state.labels]
        np.testing.assert_allclose(state.log_allocation, reached)
        assert info["objective"] == pytest.approx(max(reached))
        objective.append(reached)
    share = (np.arange(1, 21) / 20 - 0.2) / 0.7
    np.testing.assert_allclose(coldness[:17], 30.0 ** np.maximum(share[:17], 0.0))
    assert set(coldness[17:]) == {1e300}
    assert np.diff(objective[16:], axis=0).min() >= -1e-9, "without noise log p(S) does not fall"
    assert state.best == int(np.argmax(objective[-1]))


# Collapsed variational Bayes.


def test_a_pass_of_responsibilities_is_the_textbook_one(rng: np.random.Generator) -> None:
    shares = rng.dirichlet(np.ones(3), size=DATA.nnz).astype(np.float32)
    rows = np.repeat(np.arange(4), np.diff(DATA.indptr))
    expected = shares.astype(float)

    def sums(of: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_sample, by_feature = np.zeros((4, 3)), np.zeros((5, 3))
        np.add.at(by_sample, rows, of * DATA.values[:, None])
        np.add.at(by_feature, DATA.indices, of * DATA.values[:, None])
        return by_sample, by_feature

    by_sample, by_feature = sums(expected)
    state = ResponsibilityState(shares.copy(), by_sample, by_feature, np.zeros(3), *MODEL.concentrations)
    algorithm = AllocationCollapsedVariational(MODEL, ENGINE)
    after, info = algorithm.step(Key(0).at(1), DATA, state)
    for p, (n, f) in enumerate(zip(rows, DATA.indices, strict=True)):
        by_sample, by_feature = sums(expected)
        own = expected[p]
        fresh = (ALPHA[f] + by_feature[f] - own) / (ALPHA.sum() + by_feature.sum(axis=0) - own)
        fresh = fresh * (BETA + by_sample[n] - own)
        expected[p] = (fresh / fresh.sum()).astype(np.float32)
    np.testing.assert_allclose(after.responsibilities, expected, rtol=1e-5)
    by_sample, by_feature = sums(after.responsibilities.astype(float))
    np.testing.assert_allclose(after.sample_counts, by_sample, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(after.feature_counts, by_feature, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(after.component_counts, by_feature.sum(axis=0), rtol=1e-10)
    moved = np.abs(after.responsibilities.astype(float) - shares) * DATA.values[:, None]
    assert info["change"] == pytest.approx(moved.sum() / COUNTS.sum(), rel=1e-6)


@pytest.mark.parametrize("X", [[[1, 0]], [[0, 3]], [[1, 1], [2, 0]]])
def test_changes_are_per_token(X: list[list[int]]) -> None:
    data = CountMatrix.build(X)
    algorithm = AllocationCollapsedVariational(AllocationModel(2, 2, 0.5, [0.3, 2.0]), ENGINE)
    state = algorithm.init(Key(0), data)
    state.responsibilities[:] = [0.75, 0.25]
    state.sample_counts[:] = data.row_sums[:, None] * [0.75, 0.25]
    state.feature_counts[:] = data.column_sums[:, None] * [0.75, 0.25]
    after, info = algorithm.step(Key(0).at(1), data, state)
    moved = np.abs(after.responsibilities.astype(float) - [0.75, 0.25]).sum(axis=1) @ data.values
    assert info["change"] == pytest.approx(moved / data.total, rel=1e-5)
    assert info["change"] > 0.01


# Variational Bayes.


def mean_exponents(parameters: np.ndarray, axis: int) -> np.ndarray:
    return np.exp(digamma(parameters) - digamma(parameters.sum(axis=axis, keepdims=True)))


def test_a_variational_step_is_its_formulas() -> None:
    algorithm = AllocationVariationalBayes(MODEL, ENGINE)
    state = algorithm.init(Key(0), DATA)
    by_sample, by_feature = np.array(state.sample_counts), state.feature_counts.copy()
    np.testing.assert_allclose(by_sample, np.repeat(COUNTS.sum(axis=1, keepdims=True) / 3, 3, axis=1))
    weights = mean_exponents(ALPHA[:, None] + by_feature, 0)
    for axis in (1, 0):
        shares = mean_exponents(BETA + by_sample, 1)
        rates = shares @ weights.T
        if axis == 1:
            by_sample = shares * ((COUNTS / rates) @ weights)
        else:
            by_feature = weights * ((COUNTS / rates).T @ shares)
    state, _ = algorithm.step(Key(0).at(1), DATA, state)
    np.testing.assert_allclose(state.sample_counts, by_sample, rtol=1e-9)
    np.testing.assert_allclose(state.feature_counts, by_feature, rtol=1e-9)
    np.testing.assert_allclose(state.feature_counts.sum(axis=1), COUNTS.sum(axis=0), rtol=1e-9)


def test_batches_are_averaged_with_falling_weights(rng: np.random.Generator) -> None:
    averages = rng.gamma(1.0, size=(5, 3))
    for n_seen, weight in ((0, 1.0), (4, 2**-0.7), (36, 10**-0.7), (10**9, (1 + 10**9 / 4) ** -0.7)):
        found = absorb(MODEL, averages, n_seen, DATA, ENGINE)
        rate = max(weight, 4 / (n_seen + 4))
        expected = (1.0 - rate) * averages.sum(axis=1) + rate * COUNTS.mean(axis=0)
        np.testing.assert_allclose(found.sum(axis=1), expected, rtol=1e-9)


# Draws.


@pytest.mark.parametrize("kind", [AllocationCollapsedGibbs, AllocationPartialGibbs, DistributedGibbs])
@pytest.mark.parametrize("missing", [False, True])
def test_kept_draws_add_up(kind: type[AllocationCollapsedGibbs], missing: bool) -> None:
    hidden = np.zeros(COUNTS.shape, bool)
    hidden[[0, 3], [1, 2]] = missing
    data = CountMatrix.build(np.where(hidden, np.nan, COUNTS))
    settings = {"n_draws": 3, "burn_in": 1, "thin": 2, "n_chains": 2, "active_threshold": 0.2, "engine": ENGINE}
    algorithm = kind(MODEL, **settings)
    state = algorithm.init(Key(4), data)
    kept: dict[str, Any] = {}
    numbers: list[Any] = []
    for iteration in range(1, 8):
        state, _ = algorithm.step(Key(4).at(iteration), data, state)
        if iteration in (3, 5, 7):
            found = []
            for chain in range(2):
                by_sample = np.asarray(state.sample_counts[chain])
                by_feature = state.feature_counts[chain][:, :3]
                tokens, labels = by_feature.sum(axis=0), np.asarray(state.labels[chain]).astype(int)
                factors = MODEL.expected_factors(by_sample, by_feature)
                s = allocated_in(data, labels)
                rows = np.repeat(np.arange(4), np.diff(data.missing_indptr))
                np.add.at(s, (rows, data.missing_indices), state.missing[chain])
                np.testing.assert_array_equal(s.sum(axis=1), by_sample)
                np.testing.assert_array_equal(s.sum(axis=0), by_feature)
                # p(X, labels): p(S) over the labellings that give S, in cells that were seen and in missing ones
                orders = gammaln(s.sum(axis=2) + 1.0).sum() - gammaln(s + 1.0).sum()
                joint = MODEL.log_allocation(s) - orders
                found.append((joint, np.sum(tokens / tokens.sum() >= 0.2), 1 - np.sum((tokens / tokens.sum()) ** 2)))
                for name, own in (("activations", factors[0]), ("dictionary", factors[1]), ("tokens", tokens)):
                    kept[f"{name}{chain}"] = kept.get(f"{name}{chain}", 0.0) + own
            numbers.append(found)
    draws = state.draws
    assert draws.n_kept == 3
    for chain in range(2):
        np.testing.assert_allclose(draws.activations[chain], kept[f"activations{chain}"])
        np.testing.assert_allclose(draws.dictionary[chain], kept[f"dictionary{chain}"])
        np.testing.assert_allclose(draws.component_tokens[chain], kept[f"tokens{chain}"])
    expected = np.array(numbers)
    for place, name in enumerate(("log_joint", "n_active", "evenness")):
        np.testing.assert_allclose(draws.of_chains()[name], expected[:, :, place].T, err_msg=name)


def allocated_in(data: CountMatrix, labels: np.ndarray) -> np.ndarray:
    out = np.zeros((4, 5, 3))
    rows = np.repeat(np.repeat(np.arange(4), np.diff(data.indptr)), data.values)
    np.add.at(out, (rows, np.repeat(data.indices, data.values), labels), 1)
    return out


# Decomposition.


def test_steps_do_not_depend_on_the_scale_of_rows(rng: np.random.Generator) -> None:
    factor, gradient = rng.gamma(1.0, size=(4, 3)), rng.gamma(1.0, size=(4, 2, 3))
    ratio = _ratio(gradient)
    np.testing.assert_allclose(ratio, gradient[:, 0] / gradient[:, 1])
    np.testing.assert_array_equal(_ratio(np.zeros((1, 2, 3))), 1.0)
    moved = _moved(factor, ratio, 0.5)
    np.testing.assert_allclose(moved.max(axis=1), 1.0)
    expected = factor * np.sqrt(ratio)
    np.testing.assert_allclose(moved, expected / expected.max(axis=1, keepdims=True))
    assert np.all(_moved(np.zeros((1, 3)), np.ones((1, 3)), 1.0) > 0.0)


# Particles.


def test_orders_of_components_are_summed(rng: np.random.Generator) -> None:
    for n in range(5):
        logs = rng.normal(0.0, 3.0, size=(n, n))
        orders = [logs[range(n), order].sum() for order in itertools.permutations(range(n))]
        assert log_permanent(logs) == pytest.approx(logsumexp(orders), abs=1e-9)
        if n:
            assert log_all_orders(logs) == pytest.approx(logsumexp(orders) - np.trace(logs), abs=1e-9)
    counts = rng.poisson(3.0, size=(6, 3)).astype(float)
    values = [gammaln(BETA[list(order)] + counts).sum() for order in itertools.permutations(range(3))]
    found = _log_orders(MODEL, counts)
    assert found == pytest.approx(logsumexp(values) - gammaln(BETA + counts).sum())
    assert _log_orders(AllocationModel(5, 3), counts) == pytest.approx(np.log(6.0))


def test_mean_weights_are_means(rng: np.random.Generator) -> None:
    logs = rng.normal(-800.0, 5.0, size=40)
    assert log_mean_weight(logs) == pytest.approx(logsumexp(logs) - np.log(40), rel=1e-12)


def test_anchors_are_means_over_the_second_half_of_the_sweeps() -> None:
    by_sample, by_feature = anchors(Key(3), DATA, MODEL, 5)
    np.testing.assert_allclose(by_sample.sum(axis=1), BETA.sum() + COUNTS.sum(axis=1))
    np.testing.assert_allclose(by_feature.sum(axis=1), 3 * ALPHA + COUNTS.sum(axis=0))
    thirds = (by_sample - BETA) * 3
    np.testing.assert_allclose(thirds, np.rint(thirds), atol=1e-9, err_msg="three of five sweeps are averaged")


def counted(labels: np.ndarray, rows: np.ndarray, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    by_sample, by_feature = np.zeros((4, 3)), np.zeros((5, 3))
    np.add.at(by_sample, (rows, labels), 1)
    np.add.at(by_feature, (features, labels), 1)
    return by_sample, by_feature


@pytest.mark.parametrize("n_stages", [1, 4])
def test_particles_have_the_counts_of_their_labels(rng: np.random.Generator, n_stages: int) -> None:
    rows, features = tokens_of(DATA)
    np.testing.assert_array_equal(rows, ROWS)
    np.testing.assert_array_equal(features, FEATURES)
    particles, labels = no_particles(DATA, 3, 6)
    anchored = (BETA, ALPHA), (rng.gamma(1.0, size=(4, 3)), rng.gamma(1.0, size=(5, 3)))
    strengths, log_weights = np.linspace(2.0, 0.0, n_stages), np.empty(6)
    reached, last = bridge_island(
        tokens_of(DATA), *anchored, strengths, 2, Key(5).words, particles, labels, log_weights
    )
    assert np.isfinite(reached)
    assert last == (n_stages - 1) % 2
    for s in range(6):
        by_sample, by_feature = counted(labels[last, s].astype(int), rows, features)
        np.testing.assert_array_equal(particles[0][last, s], by_sample)
        np.testing.assert_array_equal(particles[1][last, s], by_feature)
        np.testing.assert_array_equal(particles[2][last, s], by_feature.sum(axis=0))
    particles, labels = no_particles(DATA, 3, 6)
    priors = np.tile(BETA, (4, 1)), np.tile(ALPHA[:, None], (1, 3))
    stages = np.unique(np.linspace(0, ROWS.size, n_stages + 1).astype(np.int64)[1:])
    assert np.isfinite(smc_island(tokens_of(DATA), *priors, stages, 2, Key(5).words, particles, labels))
    last = (stages.size - 1) % 2
    for s in range(6):
        by_sample, by_feature = counted(labels[last, s].astype(int), rows, features)
        np.testing.assert_array_equal(particles[0][last, s], by_sample)
        np.testing.assert_array_equal(particles[1][last, s], by_feature)
        np.testing.assert_array_equal(particles[2][last, s], by_feature.sum(axis=0))


@pytest.mark.parametrize(("n_rows", "tokens"), [(8, 1), (8, 1000), (200, 3), (3, 5), (1000, 1)])
def test_distributed_sweeps_have_eight_blocks_if_there_are_rows_for_them(n_rows: int, tokens: int) -> None:
    settings = {"n_draws": 1, "burn_in": 0, "thin": 1, "n_chains": 1, "active_threshold": 0.2, "engine": ENGINE}
    blocks = DistributedGibbs(MODEL, **settings)._blocks(CountMatrix.build(np.full((n_rows, 1), tokens)))
    assert len(blocks) == min(n_rows, 8)
    assert max(stop - start for start, stop in blocks) == -(-n_rows // 8)


def test_collapsed_variational_bayes_starts_from_shares_of_features() -> None:
    """Each nonzero begins with the shares that KL-NMF gives its feature; all counts are sums of these."""
    state = AllocationCollapsedVariational(MODEL, ENGINE).init(Key(3), DATA)
    first = first_feature_counts(Key(3), DATA, MODEL, "random", ENGINE)
    shares = first / first.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(state.responsibilities, shares[DATA.indices], rtol=1e-6)
    spread = np.zeros((4, 5, 3))
    spread[COUNTS > 0] = state.responsibilities.astype(np.float64) * DATA.values[:, None]
    np.testing.assert_allclose(state.sample_counts, spread.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(state.feature_counts, spread.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(state.component_counts, spread.sum(axis=(0, 1)), rtol=1e-12)
