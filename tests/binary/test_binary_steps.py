"""Steps of the binary models beside plain NumPy: rows for given columns, starts, batches, and what draws add up to."""

from __future__ import annotations

import copy
from typing import Any, cast

import numpy as np
import pytest
from binary_samples import cells_of, planted
from scipy.special import betaln, digamma, gammaln

from partwise.binary.inference import starts
from partwise.binary.inference.activations import activation_prior
from partwise.binary.inference.batches import (
    StochasticState,
    StochasticVariational,
    absorb,
    first_averages,
    random_averages,
)
from partwise.binary.inference.cells import sum_of_others
from partwise.binary.inference.collapsed_variational import BinaryCollapsedVariational
from partwise.binary.inference.em import ExpectationMaximisation, _beyond_between_0_and_1, _beyond_on_simplex
from partwise.binary.inference.gibbs import log_joint_of_counts
from partwise.binary.inference.learning import learn
from partwise.binary.inference.partial import BinaryPartialGibbs
from partwise.binary.inference.posterior import (
    BinaryDraws,
    beta_moments,
    cell_moments,
    dirichlet_moments,
    posterior_of_counts,
    posterior_of_draws,
    posterior_of_factors,
)
from partwise.binary.inference.priors import exceeding_rows
from partwise.binary.inference.starts import start_labels
from partwise.binary.inference.variational import BinaryVariationalBayes
from partwise.binary.kernels.activations import fit_rows, sample_rows
from partwise.binary.model import KINDS, BinaryModel, Priors
from partwise.core.data import BinaryMatrix
from partwise.core.keys import Key
from partwise.engines import resolve_engine
from partwise.errors import InvalidInputError
from replay import Uniforms, choice

ENGINE = resolve_engine()
X = planted(0, 12, 7)
X[4] = np.nan  # a row without cells
SEEN = ~np.isnan(X)
CELLS = cells_of(X)


ALPHA, BETA = np.array([0.8, 0.3, 1.7]), np.array([0.5, 1.1, 0.2])


def model_of(kind: Any, n_components: int = 3, *, learns: bool = False) -> BinaryModel:
    own = np.linspace(1.0, 2.0, n_components)  # every part has priors of its own
    estimated: Any = ("concentration", "activation_concentration") if kind == "dir-dir" else ("beta", "concentration")
    priors = 1.3 * own, 0.6 / own, 0.4 * own, 0.7 * own[::-1]
    return BinaryModel(kind, n_components, *priors, estimated=estimated if learns else ())


def oriented(kind: str) -> np.ndarray:
    """The bits as the algorithms see them: rows are features for Dir-Beta."""
    return X.T if kind == "dir-beta" else X


def test_rows_are_cut_by_their_cells() -> None:
    """The cuts decide the order of sums, and so the bits of a fit: they belong to what a seed promises."""
    bits = np.zeros((1024, 96))
    bits[:, 0] = 1.0
    assert cells_of(bits).blocks == [(0, 341), (341, 682), (682, 1024)]
    bits[:, 32:] = np.nan  # missing cells do not count
    assert cells_of(bits).blocks == [(0, 1024)]


# Rows for given columns.


def means_of(counts: np.ndarray, is_dirichlet: bool, alpha: np.ndarray, beta: np.ndarray, *, logs: bool) -> np.ndarray:
    """The factor of a row for zeros and for ones: its mean, or exp E log. Counts are bit x components."""
    both = counts.sum(axis=0)
    if is_dirichlet:
        parameters = alpha + both
        one = np.exp(digamma(parameters) - digamma(parameters.sum())) if logs else parameters / parameters.sum()
        return np.stack((one, one))
    parameters = np.stack((beta, alpha)) + counts
    whole = alpha + beta + both
    return np.exp(digamma(parameters) - digamma(whole)) if logs else parameters / whole


@pytest.mark.parametrize("is_dirichlet", [False, True])
@pytest.mark.parametrize("by_mean_logs", [False, True])
@pytest.mark.parametrize(("max_iter", "tol"), [(1, 0.0), (2, 0.0), (7, 0.0), (1000, 1e-2), (1000, 1e-4)])
def test_rows_are_iterated_until_they_stand_still(
    rng: np.random.Generator, is_dirichlet: bool, by_mean_logs: bool, max_iter: int, tol: float
) -> None:
    weights, (alpha, beta) = rng.random((2, 7, 3)), (ALPHA, BETA)
    out = np.full((12, 3, 2), -1.0)
    given, rule = (weights, is_dirichlet, alpha, beta), (by_mean_logs, max_iter, tol)
    fit_rows(CELLS.ordered[:2], given, rule, 2, 11, out)
    assert np.all(out[[0, 1, 11]] == -1.0)
    n_iterations = []
    for n in range(2, 11):
        seen = np.flatnonzero(SEEN[n])
        bits = X[n, seen].astype(int)
        counts = np.stack([np.full(3, np.sum(bits == x) / 3) for x in (0, 1)])
        for iteration in range(max_iter if seen.size else 0):
            local = means_of(counts, is_dirichlet, alpha, beta, logs=by_mean_logs)
            shares = weights[bits, seen] * local[bits]
            shares /= shares.sum(axis=1, keepdims=True)
            fresh = np.stack([shares[bits == x].sum(axis=0) for x in (0, 1)])
            change, counts = np.abs(fresh - counts).max(), fresh
            if change <= tol * seen.size:
                n_iterations.append(iteration)
                break
        np.testing.assert_allclose(out[n], counts.T, rtol=1e-10, atol=1e-13)
    assert tol == 0.0 or max(n_iterations) > 0, "some row needs more than one iteration"


@pytest.mark.parametrize("is_dirichlet", [False, True])
def test_rows_are_sampled_as_in_plain_python(rng: np.random.Generator, is_dirichlet: bool) -> None:
    weights, (alpha, beta), (burn_in, n_draws) = rng.random((2, 7, 3)), (ALPHA, BETA), (3, 4)
    words = Key(6, stage=2, chain=1).words
    out = np.full((12, 3), -1.0)
    given, lengths = (weights, is_dirichlet, alpha, beta), (burn_in, n_draws)
    sample_rows(CELLS.ordered[:2], given, lengths, words, 2, 11, out)
    assert np.all(out[[0, 1, 11]] == -1.0)
    for n in range(2, 11):
        seen = np.flatnonzero(SEEN[n])
        bits, labels = X[n, seen].astype(int), np.full(seen.size, -1)
        uniforms, total = Uniforms((*words[:2], np.uint64(0)), 0), np.zeros(3)

        def counted(labels: np.ndarray = labels, bits: np.ndarray = bits) -> np.ndarray:
            return np.array([[np.sum((labels == k) & (bits == x)) for k in range(3)] for x in (0, 1)], float)

        for sweep in range(1 + burn_in + n_draws):
            for i, (f, x) in enumerate(zip(seen, bits, strict=True)):
                labels[i] = -1
                counts = counted()
                both = counts.sum(axis=0)
                factor = alpha + both if is_dirichlet else ((beta, alpha)[x] + counts[x]) / (alpha + beta + both)
                labels[i] = choice(weights[x, f] * factor, uniforms.next())
            if sweep > burn_in:
                total += means_of(counted(), is_dirichlet, alpha, beta, logs=False)[1]
        np.testing.assert_allclose(out[n], total / n_draws, rtol=1e-10)


def test_sums_of_others(rng: np.random.Generator) -> None:
    weights = rng.random((6, 4))
    weights[2] = [1e-30, 1.0, 2e-30, 3e-30]
    weights[3] = [1.0, 0.0, 0.0, 0.0]
    expected = np.array([[np.sum(np.delete(row, k)) for k in range(4)] for row in weights])
    np.testing.assert_allclose(sum_of_others(weights), expected, rtol=1e-12)


def test_priors_of_activations() -> None:
    expected = {
        "beta-dir": ([1.3, 1.95, 2.6], [0.6, 0.4, 0.3]),
        "dir-beta": ([0.4, 0.6, 0.8], [0.0, 0.0, 0.0]),
        "dir-dir": ([1.4, 1.05, 0.7], [0.0, 0.0, 0.0]),
    }
    for kind in KINDS:
        np.testing.assert_allclose(activation_prior(model_of(kind)), expected[kind])


# Starts.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", ["random", "vb"])
def test_first_labels_fit_their_bits(kind: Any, start: Any) -> None:
    cells, model = cells_of(planted(1, 40, 25), kind), model_of(kind, 4)
    by_column, by_row = start_labels(Key(3), cells, model, start)
    assert by_column.shape == (cells.n_cells,)
    assert set(by_column) == set(range(4))
    if kind != "dir-dir":
        assert by_row.size == 0
        return
    rows, columns = cells.rows_of_cells(), cells.codes >> 1
    ordered = np.empty_like(by_column)
    ordered[np.lexsort((rows, columns))] = by_column
    np.testing.assert_array_equal(ordered == by_row, cells.codes & 1)
    assert set(by_row) == set(range(4))


@pytest.mark.parametrize("kind", KINDS)
def test_variational_starts_have_flat_priors_and_few_components(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[BinaryModel] = []

    class Watched(BinaryVariationalBayes):
        def init(self, key: Key, data: Any) -> Any:
            seen.append(self.model)
            return super().init(key, data)

    monkeypatch.setattr(starts, "BinaryVariationalBayes", Watched)
    # of the parts that it keeps, the beta prior stays; of the Dirichlet priors nothing does, nor is any estimated
    for given in (model_of(kind, 30, learns=True), BinaryModel(kind, 30, 1.3, 0.6, 0.4, 0.7)):
        for start, most in (("vb", 10), ("vb20", 20)):
            start_labels(Key(0), cells_of(X, kind), given, cast(Any, start))
            few = seen.pop()
            assert (few.n_components, few.estimated) == (most, ())
            np.testing.assert_array_equal(few.priors[2:], np.ones((2, most)))
            np.testing.assert_array_equal(few.priors[:2], np.array(given.priors)[:2, :most])


@pytest.mark.parametrize("kind", KINDS)
def test_first_expected_counts_sum_to_the_cells(kind: Any) -> None:
    cells = cells_of(X, kind)
    state = BinaryVariationalBayes(model_of(kind), ENGINE).init(Key(0), cells)
    np.testing.assert_array_equal(state.priors, model_of(kind).priors)
    np.testing.assert_allclose(state.column_counts.sum(axis=1), cells.column_sizes)
    np.testing.assert_allclose(state.row_counts.reshape(cells.shape[0], -1).sum(axis=1), cells.row_sizes)
    averages = random_averages(Key(0), model_of(kind), 7)
    np.testing.assert_allclose(averages.reshape(7, -1).sum(axis=1), 1.0)
    assert np.all(averages >= 0)
    if kind == "dir-beta":
        np.testing.assert_allclose(averages.sum(axis=2), 1 / 3, err_msg="every component has its share")


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("order", [0, 2])
def test_collapsed_variational_bayes_starts_from_hard_labels(order: Any, learns: bool) -> None:
    model = model_of("beta-dir", learns=learns)
    algorithm = BinaryCollapsedVariational(model, order, "random")
    state = algorithm.init(Key(2), CELLS)
    labels, bits, rows, columns = state.shares.argmax(axis=1), CELLS.codes & 1, CELLS.rows_of_cells(), CELLS.codes >> 1
    np.testing.assert_array_equal(np.sort(state.shares, axis=1), np.tile([0, 0, 1], (CELLS.n_cells, 1)))
    by_row, by_column = np.zeros((12, 2, 3)), np.zeros((7, 3))
    np.add.at(by_row, (rows, bits, labels), 1)
    np.add.at(by_column, (columns, labels), 1)
    np.testing.assert_array_equal(state.row_counts, by_row)
    np.testing.assert_array_equal(state.column_counts, by_column)
    if learns:
        priors, first, *_ = learn(Key(2), CELLS, model)
    else:
        priors, (first, _) = np.array(model.priors), start_labels(Key(2), CELLS, model, "random")
    np.testing.assert_array_equal(labels[np.lexsort((rows, columns))], first)
    np.testing.assert_array_equal(state.priors, priors)
    before = state.shares.astype(float)
    after, info = algorithm.step(Key(2).at(1), CELLS, state)
    assert info["change"] == pytest.approx(0.5 * np.abs(after.shares - before).sum() / CELLS.n_cells, rel=1e-6)
    assert 0.0 < info["change"] <= 1.0


def test_one_chain_of_the_partial_sampler_starts_like_the_next(rng: np.random.Generator) -> None:
    settings = {"n_draws": 1, "burn_in": 0, "thin": 1, "n_chains": 3, "active_threshold": 0.01, "engine": ENGINE}
    sampler = BinaryPartialGibbs(model_of("beta-dir"), **settings)
    state = sampler.init(Key(1), CELLS)
    rows, columns, bits = CELLS.rows_of_cells(), CELLS.codes >> 1, CELLS.codes & 1
    for labels, by_row, by_column in zip(state.labels, state.row_counts, state.column_counts, strict=True):
        expected = np.zeros((12, 3, 2)), np.zeros((7, 3))
        np.add.at(expected[0], (rows, labels, bits), 1)
        np.add.at(expected[1], (columns, labels), 1)
        np.testing.assert_array_equal(by_row, expected[0])
        np.testing.assert_array_equal(by_column, expected[1])
    assert len({labels.tobytes() for labels in state.labels}) == 3
    np.testing.assert_array_equal(state.priors, [model_of("beta-dir").priors] * 3)
    with pytest.raises(InvalidInputError, match="dir-dir"):
        BinaryPartialGibbs(model_of("dir-dir"), **settings)


def test_counts_that_exceed_are_those_of_all_rows_at_once(rng: np.random.Generator) -> None:
    settings = {"n_draws": 1, "burn_in": 0, "thin": 1, "n_chains": 1, "active_threshold": 0.01, "engine": ENGINE}
    model, counts = model_of("beta-dir"), rng.integers(0, 3, size=(12, 3, 2)).astype(np.int32)
    found = BinaryPartialGibbs(model, **settings)._exceeding(CELLS, counts)
    for own, other in zip(found, exceeding_rows(model, counts), strict=True):
        np.testing.assert_array_equal(own, other)


# Steps beyond, of EM.


def test_steps_beyond_keep_direction_in_logarithms(rng: np.random.Generator) -> None:
    before, now = rng.dirichlet(np.ones(3), size=(2, 5))
    found = _beyond_on_simplex(now, before, 0.7)
    expected = now * (now / before) ** 0.7
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)
    before, now = rng.uniform(0.1, 0.9, size=(2, 5, 3))
    found = _beyond_between_0_and_1(now, before, 0.7)
    logit = np.log(now / (1 - now)) + 0.7 * (np.log(now / (1 - now)) - np.log(before / (1 - before)))
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-logit)), rtol=1e-10)
    ends = np.array([[0.0, 1.0, 0.5]])
    np.testing.assert_array_equal(_beyond_between_0_and_1(ends, np.array([[0.5, 0.5, 0.5]]), 1.0), ends)


@pytest.mark.parametrize("kind", KINDS)
def test_em_starts_inside(kind: Any) -> None:
    cells = cells_of(X, kind)
    algorithm = ExpectationMaximisation(model_of(kind), False, ENGINE)
    state = algorithm.init(Key(0), cells)
    np.testing.assert_allclose(state.columns.sum(axis=1), 1.0)
    if kind == "dir-dir":
        np.testing.assert_allclose(state.rows.sum(axis=1), 1.0)
    assert 0.0 < state.rows.min() < state.rows.max() < 1.0
    np.testing.assert_array_equal(state.last_rows, state.rows)
    np.testing.assert_array_equal(state.priors, model_of(kind).priors)
    # a rejected point halves how far a step may go, and is not reported
    state, first = algorithm.step(Key(0).at(1), cells, state)
    assert (state.stride, state.longest) == (1.0, 1.02)
    state.reached = first["objective"] + 1e9
    rejected, info = algorithm.step(Key(0).at(2), cells, state)
    assert (info, rejected.stride, rejected.longest) == ({}, 0.0, 0.5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use_priors", [False, True])
def test_em_adds_priors_to_expected_counts(kind: Any, use_priors: bool) -> None:
    """The mode of log odds, or of logarithms: shares of the counts with the priors' parameters, not with these - 1."""
    bits, model, cells = oriented(kind), model_of(kind), cells_of(X, kind)
    algorithm = ExpectationMaximisation(model, use_priors, ENGINE)
    state = algorithm.init(Key(0), cells)
    ones, zeros = (bits == 1)[:, :, None, None], (bits == 0)[:, :, None, None]
    if kind == "dir-dir":  # labels of a column and of a row: the same for a one, any two that differ for a zero
        shown = np.where(ones, np.eye(3), np.where(zeros, 1.0 - np.eye(3), 0.0))
        shares = np.einsum("nfkl,fk,nl->nfkl", shown, state.columns, state.rows)
    else:  # the label and the bit
        shown = np.stack((zeros[..., 0], ones[..., 0]), axis=3)
        odds = np.stack((1.0 - state.rows, state.rows), axis=2)
        shares = np.einsum("nfkx,fk,nkx->nfkx", np.broadcast_to(shown, (*bits.shape, 3, 2)), state.columns, odds)
    shares[~np.isnan(bits)] /= shares.sum(axis=(2, 3), keepdims=True)[~np.isnan(bits)]
    columns, (alpha, beta, concentration, own) = shares.sum(axis=(0, 3)), np.array(model.priors) * use_priors
    columns = columns + concentration
    if kind == "dir-dir":
        rows = shares.sum(axis=(1, 2)) + own
        whole = rows.sum(axis=1, keepdims=True)
    else:
        both = shares.sum(axis=1) + np.stack((beta, alpha), axis=1)
        rows, whole = both[..., 1], both.sum(axis=2)
    after, _ = algorithm.step(Key(0).at(1), cells, copy.deepcopy(state))
    for name, part, total in (("rows", rows, whole), ("columns", columns, columns.sum(axis=1, keepdims=True))):
        # where nothing was observed and there is no prior, factors stay
        kept = np.broadcast_to(total, part.shape) == 0
        expected = np.where(kept, getattr(state, name), part / np.where(total == 0, 1.0, total))
        np.testing.assert_allclose(getattr(after, name), expected, rtol=1e-10, atol=1e-13, err_msg=name)


# Priors of a state.


STEPS: dict[str, Any] = {
    "vb": lambda model: BinaryVariationalBayes(model, ENGINE),
    "map": lambda model: ExpectationMaximisation(model, True, ENGINE),
    "batches": lambda model: StochasticVariational(model, 5, ENGINE),
    "cvb0": lambda model: BinaryCollapsedVariational(model, 0, "random"),
    "cvb": lambda model: BinaryCollapsedVariational(model, 2, "random"),
}
# collapsed variational Bayes needs a beta factor
TAKEN = [(kind, name) for kind in KINDS for name in STEPS if kind != "dir-dir" or not name.startswith("cvb")]


@pytest.mark.parametrize(("kind", "name"), TAKEN)
def test_steps_go_by_the_priors_of_their_state(kind: Any, name: str) -> None:
    """Learned priors replace those of the model: models that differ in them alone take the same steps from a state."""
    model, data = model_of(kind), BinaryMatrix.build(X) if name == "batches" else cells_of(X, kind)
    others = model.with_priors(np.array(model.priors)[:, ::-1])
    first = STEPS[name](model).init(Key(0), data)

    def after_two_steps(own: BinaryModel, priors: np.ndarray) -> tuple[np.ndarray, Any]:
        state = copy.deepcopy(first)
        state.priors, info = priors, {}
        for iteration in (1, 2):
            state, info = STEPS[name](own).step(Key(0).at(iteration), data, state)
        np.testing.assert_array_equal(state.priors, priors)
        return getattr(state, {"map": "rows", "batches": "averages"}.get(name, "row_counts")), info

    expected, info = after_two_steps(model, np.array(model.priors))
    found, same = after_two_steps(others, np.array(model.priors))
    np.testing.assert_array_equal(found, expected)
    assert same == info
    found, _ = after_two_steps(model, np.array(others.priors))
    assert np.abs(found - expected).max() > 1e-4, "the priors matter"


# Batches.


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_averaged_with_falling_weights(kind: Any) -> None:
    data, model = BinaryMatrix.build(X), model_of(kind)
    seen = SEEN.mean(axis=0)
    # Expected counts of a feature are its observed cells, so the sums of averages follow from the weights alone.
    averages = random_averages(Key(0), model, 7)
    for n_seen in (0, 24):
        weight = (1.0 + n_seen / 12) ** -0.7
        found = absorb(model, averages, n_seen, data, ENGINE)
        expected = (1.0 - weight) * averages.reshape(7, -1).sum(axis=1) + weight * seen
        np.testing.assert_allclose(found.reshape(7, -1).sum(axis=1), expected, rtol=1e-8)
    algorithm, key = StochasticVariational(model, 5, ENGINE), Key(4).at(1)
    first = algorithm.init(Key(0), data)
    np.testing.assert_array_equal(first.averages, averages)
    np.testing.assert_array_equal(first.priors, model.priors)
    state, info = algorithm.step(key, data, StochasticState(averages, np.array(model.priors)))
    assert state.n_batches == 3
    assert info["batch_fit"] < 0.0
    order, expected = key.for_stage("batches").generator().permutation(12), averages.reshape(7, -1).sum(axis=1)
    for number, rows in enumerate((order[:5], order[5:10], order[10:]), start=1):
        weight = (1.0 + number) ** -0.7
        expected = (1.0 - weight) * expected + weight * SEEN[rows].mean(axis=0)
    np.testing.assert_allclose(state.averages.reshape(7, -1).sum(axis=1), expected, rtol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_that_teach_priors_start_from_learned_labels(kind: Any) -> None:
    data, model = BinaryMatrix.build(X), model_of(kind, learns=True)
    found = learn(Key(0), cells_of(X, kind), model)
    averages, priors = first_averages(Key(0), model, data)
    counts = found.row_counts if kind == "dir-beta" else found.column_counts
    np.testing.assert_allclose(averages * 12, counts)
    np.testing.assert_allclose(averages.reshape(7, -1).sum(axis=1), SEEN.mean(axis=0))
    np.testing.assert_array_equal(priors, found.priors)
    # a whole pass goes by what a first batch of random rows has taught
    some = np.sort(Key(0).for_stage("first").generator().permutation(12)[:5])
    state = StochasticVariational(model, 5, ENGINE).init(Key(0), data)
    expected = first_averages(Key(0), model, data.take(some))
    for own, other in zip((state.averages, state.priors), expected, strict=True):
        np.testing.assert_array_equal(own, other)


def test_taken_rows_are_rows() -> None:
    rows = np.array([3, 0, 4])
    taken = BinaryMatrix.build(X).take(rows)
    np.testing.assert_array_equal(taken.to_scipy().toarray(), np.nan_to_num(X)[rows])
    np.testing.assert_array_equal(taken.missing_matrix().toarray(), ~SEEN[rows])


# Posteriors.


@pytest.mark.parametrize("kind", KINDS)
def test_log_joint_of_counts(rng: np.random.Generator, kind: Any) -> None:
    model = model_of(kind)
    rows = rng.integers(5, size=(6, 3) if kind == "dir-dir" else (6, 3, 2)).astype(np.int32)
    columns = rng.integers(5, size=(4, 3)).astype(np.int32)

    def dirichlet(counts: np.ndarray, a: np.ndarray) -> float:
        one = gammaln(a + counts) - gammaln(a)
        return float(one.sum() - (gammaln(a.sum() + counts.sum(axis=1)) - gammaln(a.sum())).sum())

    alpha, beta, concentration, activation_concentration = model.priors
    expected = dirichlet(columns, concentration)
    if kind == "dir-dir":
        expected += dirichlet(rows, activation_concentration)
    else:
        both = betaln(alpha + rows[..., 1], beta + rows[..., 0]) - betaln(alpha, beta)
        expected += float(both.sum())
    assert log_joint_of_counts(model, rows, columns) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_add_up_to_means_and_spreads(rng: np.random.Generator, kind: Any) -> None:
    model, cells, (n_chains, n_draws) = model_of(kind), cells_of(X, kind), (2, 3)
    n_rows, n_columns = cells.shape
    draws = BinaryDraws.empty(cells, 3, n_chains, n_draws)
    log_joint = np.array([[-5.0, -9.0], [-4.0, -2.0], [-6.0, -1.0]])
    kept, held = [], rng.integers(1, 30, size=(n_draws, n_chains, 3))
    drawn = rng.gamma(2.0, size=(n_draws, n_chains, 4, 3))  # priors, which every draw of a chain may have of its own
    totals = drawn[:, :, 2].sum(axis=2)
    for draw in range(n_draws):
        moments = []
        for priors in map(Priors._make, drawn[draw]):
            if kind == "dir-dir":
                rows = dirichlet_moments(rng.integers(9, size=(n_rows, 3)), priors.activation_concentration)
            else:
                rows = beta_moments(rng.integers(9, size=(n_rows, 3, 2)), priors.alpha, priors.beta)
            moments.append((rows, dirichlet_moments(rng.integers(9, size=(n_columns, 3)), priors.concentration)))
        kept.append(moments)
        draws.priors += drawn[draw]
        draws.keep(cells, moments, held[draw], log_joint[draw], totals[draw], 0.1, ENGINE)
    assert draws.likeliest == 1, "the chain of the highest mean, which is not that of the first draw"
    own = [moments[1] for moments in kept]
    factors = []
    for side in (0, 1):
        means = np.array([pair[side].mean for pair in own])
        variances = np.array([pair[side].variance for pair in own])
        factors.append((means.mean(axis=0), np.sqrt(variances.mean(axis=0) + means.var(axis=0))))
    pairs = [cell_moments(*chain) for moments in kept for chain in moments]
    mean, square = (np.mean([pair[part] for pair in pairs], axis=0) for part in (0, 1))
    std, (rows, columns) = np.sqrt(square - mean**2), factors
    found = posterior_of_draws(model, draws)
    if kind == "dir-beta":
        rows, columns, mean, std = columns, rows, mean.T, std.T
    checked = {
        "activations": rows[0],
        "activations_std": rows[1],
        "dictionary": columns[0],
        "dictionary_std": columns[1],
        "probability": mean,
        "probability_std": std,
        "component_cells": held[:, 1].mean(axis=0),
        "priors": drawn[:, 1].mean(axis=0),
    }
    for name, expected in checked.items():
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-9, atol=1e-12, err_msg=name)
    numbers, seen, bits = draws.of_chains(), ~np.isnan(oriented(kind)), oriented(kind) == 1
    for draw, moments in enumerate(kept):
        for chain, pair in enumerate(moments):
            p = cell_moments(*pair)[0]
            logs = np.log(np.where(bits, p, 1.0 - p))[seen].sum()
            assert numbers["log_likelihood"][chain, draw] == pytest.approx(logs)
            assert numbers["missing_probability"][chain, draw] == pytest.approx(p[~seen].mean())
            assert numbers["log_joint"][chain, draw] == log_joint[draw, chain]
            assert numbers["total_concentration"][chain, draw] == totals[draw, chain]
            assert numbers["n_active"][chain, draw] == np.sum(held[draw, chain] >= 0.1 * cells.n_cells)


@pytest.mark.parametrize("kind", KINDS)
def test_posteriors_of_counts_and_of_factors_are_oriented(rng: np.random.Generator, kind: Any) -> None:
    model, cells = model_of(kind), cells_of(X, kind)
    n_rows, n_columns = cells.shape
    columns = rng.gamma(2.0, size=(n_columns, 3))
    rows = rng.gamma(2.0, size=(n_rows, 3) if kind == "dir-dir" else (n_rows, 3, 2))
    found = posterior_of_counts(model, rows, columns)
    alpha, beta, concentration, own = model.priors
    row_moments = dirichlet_moments(rows, own) if kind == "dir-dir" else beta_moments(rows, alpha, beta)
    column_moments = dirichlet_moments(columns, concentration)
    names = ("dictionary", "activations") if kind == "dir-beta" else ("activations", "dictionary")
    for name, moments in zip(names, (row_moments, column_moments), strict=True):
        np.testing.assert_allclose(getattr(found, name), moments.mean)
        np.testing.assert_allclose(getattr(found, f"{name}_std"), np.sqrt(moments.variance))
    np.testing.assert_allclose(found.component_cells, columns.sum(axis=0))
    np.testing.assert_allclose(found.probability, found.activations @ found.dictionary.T)
    point = posterior_of_factors(model, cells, row_moments.mean, column_moments.mean)
    np.testing.assert_allclose(point.probability, found.probability)
    np.testing.assert_allclose(getattr(point, names[0]), row_moments.mean)
    np.testing.assert_allclose(point.component_cells, cells.column_sizes @ column_moments.mean)
    assert point.activations_std is None
    for posterior in (found, point):
        np.testing.assert_array_equal(posterior.priors, model.priors)
