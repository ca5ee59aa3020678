"""The parts of the exact algorithms, each against the line of NumPy that its docstring opens with."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from partwise.likelihood.kernels.jacobi import beta_rule
from partwise.likelihood.kernels.lattice import forward_step
from partwise.likelihood.kernels.lattice_walk import fill_tables, make_walk, present_states
from partwise.likelihood.kernels.quadrature import exponent_sum, list_bits, log_products, plain_products
from partwise.likelihood.kernels.rows import OpenRow, RowModel, gather_row, row_buffers
from partwise.likelihood.kernels.tokens import in_turn, interleave


def _address(state: tuple[int, ...]) -> int:
    """Where the lattice keeps a state."""
    partial = np.cumsum(state)[:-1]
    return sum(math.comb(int(s) + i - 1, i) for i, s in enumerate(partial, start=1))


@pytest.mark.parametrize("n_components", [3, 4, 5, 6, 7])
def test_states_fill_their_addresses(n_components: int) -> None:
    walk = make_walk(n_components, 6)
    for m in range(7):
        states = [s for s in itertools.product(range(m + 1), repeat=n_components) if sum(s) == m]
        first, number = present_states(walk, OpenRow(1, n_components, 6, 0.0, 1.0), m)
        assert sorted(_address(s) for s in states) == list(range(first, first + number))


@pytest.mark.parametrize("n_components", [2, 3, 4, 5, 6])
def test_a_step_takes_in_one_token(n_components: int) -> None:
    rng = np.random.default_rng(n_components)
    weights, shapes, m, n_tokens = rng.random((2, n_components)), rng.random(n_components), 4, 6
    walk = make_walk(n_components, n_tokens)
    size = OpenRow(2, n_components, n_tokens, 0.0, shapes.sum())
    old = {s: rng.random() for s in itertools.product(range(m + 1), repeat=n_components) if sum(s) == m}
    # What lies beyond the states is old rubbish, but finite.
    states = rng.random(math.comb(n_tokens + n_components - 1, n_components - 1) + 2)

    def place(state: tuple[int, ...]) -> int:
        first = present_states(walk, size, sum(state))[0]
        return first + (state[0] if n_components == 2 else _address(state))

    for state, value in old.items():
        states[place(state)] = value
    row = row_buffers(np.array([0, 2]), np.array([0]), n_components, np.zeros(1, np.bool_))
    row = row._replace(weights=weights, shapes=shapes)
    fill_tables(row, size, 1, m, walk)
    np.testing.assert_allclose(
        walk.tables[:n_components, 1 : m + 2],
        weights[1][:, None] * (shapes[:, None] + np.arange(m + 1)) / (shapes.sum() + m),
        rtol=1e-15,
    )
    forward_step(states, size, m, walk)
    unit = np.eye(n_components, dtype=int)
    for new in (s for s in itertools.product(range(m + 2), repeat=n_components) if sum(s) == m + 1):
        wanted = sum(
            walk.tables[k, new[k]] * old[tuple(int(v) for v in new - unit[k])]
            for k in range(n_components)
            if new[k] > 0
        )
        assert states[place(new)] == pytest.approx(wanted, rel=1e-14)


def test_rows_are_reduced_to_what_is_open() -> None:
    dictionary = np.array([[0.5, 0.0, 0.0, 0.2], [0.0, 0.3, 0.0, 0.0], [0.1, 0.0, 0.0, 0.4], [0.0, 0.0, 0.7, 0.0]])
    model = RowModel(
        np.array([0, 4]),
        np.arange(4, dtype=np.int32),
        np.array([3, 5, 2, 0]),
        dictionary,
        np.array([[0.5, 1.0, 2.0, 0.25]]),
        np.array([0.4, 0.6, 0.8, 1.0]),
        np.ones(4),
        np.zeros(1, np.bool_),
    )
    row = row_buffers(model.indptr, np.array([0]), 4, model.stop)
    n_features, n_components, n_tokens, log_factor, total_shape = gather_row(model, 0, row)
    assert (n_features, n_components, n_tokens) == (2, 2, 5)
    assert total_shape == pytest.approx(row.shapes[:2].sum())
    assert row.components[:2].tolist() == [0, 3]
    assert row.counts[:2].tolist() == [3, 2]
    assert row.positions[:2].tolist() == [0, 2]
    assert row.owners[:4].tolist() == [-1, 1, -1, 2]
    assert row.settled.tolist() == [0, 5, 0, 0]
    np.testing.assert_allclose(row.weights[:2, :2], [[1.0, 0.2], [0.5, 1.0]])
    wanted = 3 * math.log(0.25) + 5 * math.log(0.3) + 2 * math.log(0.1) + math.lgamma(5.6) - math.lgamma(0.6)
    assert log_factor == pytest.approx(wanted, rel=1e-14)


def test_interleaved_tokens_are_sorted_by_their_places() -> None:
    rng = np.random.default_rng(1)
    weights, counts = rng.random((9, 4)), rng.integers(0, 6, 9)
    order = np.empty(counts.sum(), dtype=np.int64)
    interleave(weights, counts, 9, 4, 0, order)
    kinds = weights.argmax(axis=1) * 5.0 + weights.sum(axis=1)
    ranks = np.argsort(np.argsort(kinds))
    offsets = ((ranks + 0.5) * ((np.sqrt(5.0) - 1.0) / 2.0)) % 1.0
    places = [((offsets[f] + i) / counts[f], f) for f in range(9) for i in range(counts[f])]
    np.testing.assert_array_equal(order, [f for _, f in sorted(places)])


def test_interleaved_tokens_look_like_the_whole_everywhere() -> None:
    rng = np.random.default_rng(2)
    counts = np.array([500, 1, 1, 300, 1, 40, 1, 156])
    weights = rng.random((8, 3))
    order = np.full(int(counts.sum()) + 5, -1, dtype=np.int64)
    interleave(weights, counts, 8, 3, 5, order)
    assert (order[:5] == -1).all()
    np.testing.assert_array_equal(np.bincount(order[5:], minlength=8), counts)
    for f in range(8):
        so_far = np.cumsum(order[5:] == f)
        even = counts[f] * np.arange(1, counts.sum() + 1) / counts.sum()
        assert np.abs(so_far - even).max() <= 2.0
    # Single tokens of alike features are spread out too.
    kinds = np.repeat([[1.0, 0.1], [0.1, 1.0]], 500, axis=0)
    single = np.empty(1000, dtype=np.int64)
    interleave(kinds, np.ones(1000, dtype=np.int64), 1000, 2, 0, single)
    assert np.abs(np.cumsum(single < 500) - np.arange(1, 1001) / 2).max() < 8
    in_turn(counts, 8, order)
    np.testing.assert_array_equal(order[:1000], np.repeat(np.arange(8), counts))


SHAPES = [1e-8, 0.3, 1.0, 40.0, 1e4, 1e8]


@pytest.mark.parametrize("p", SHAPES)
@pytest.mark.parametrize("r", SHAPES)
@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_gauss_rules_are_exact_up_to_their_degree(p: float, r: float, n: int) -> None:
    rule = beta_rule(n, p, r)
    assert (np.diff(rule.nodes) > 0).all()
    assert (rule.nodes > 0).all()
    assert (rule.complements > 0).all()
    with mp.workdps(60):
        for i, j in {(1, 0), (0, 1), (n, n - 1), (2 * n - 1, 0), (0, 2 * n - 1), (n // 2, n // 3)}:
            wanted = mp.log(mp.beta(mp.mpf(p) + i, mp.mpf(r) + j) / mp.beta(p, r))
            value = np.logaddexp.reduce(rule.log_weights + i * np.log(rule.nodes) + j * np.log(rule.complements))
            # An error of the logarithm is a relative error of the integral, of a few roundings for each factor.
            assert abs(value - float(wanted)) < 1e-12 + 2e-15 * abs(float(wanted)) * (1 + i + j)


@pytest.mark.parametrize(("n", "p", "r"), [(41, 0.5, 3.0), (41, 1e-8, 1e8), (301, 1.0, 1e-8), (301, 200.0, 1e6)])
def test_nodes_keep_their_digits_at_both_ends(n: int, p: float, r: float) -> None:
    rule = beta_rule(n, p, r)
    with mp.workdps(60):
        for j in (0, 1, n // 2, n - 1):
            near, far = mp.mpf(float(rule.nodes[j])), mp.mpf(float(rule.complements[j]))
            node = near if near < 0.5 else 1 - far
            older = node + mp.mpf("1e-10") * min(near, far)
            for _ in range(4):  # secants, from 10 digits on
                values = _polynomial(n, p, r, older), _polynomial(n, p, r, node)
                if values[0] == values[1]:
                    break
                older, node = node, node - values[1] * (node - older) / (values[1] - values[0])
            assert abs(near / node - 1) < 3e-14
            assert abs(far / (1 - node) - 1) < 3e-14


def _polynomial(n: int, p: float, r: float, t: Any) -> Any:
    """The Jacobi polynomial that is one at 0, by its three-term recurrence."""
    p, r = mp.mpf(p), mp.mpf(r)
    older, value = mp.mpf(0), mp.mpf(1)
    for i in range(n):
        up = (i + p) * (i + p + r - 1) / ((2 * i + p + r - 1) * (2 * i + p + r)) if i else p / (p + r)
        down = i * (i + r - 1) / ((2 * i + p + r - 2) * (2 * i + p + r - 1)) if i else mp.mpf(0)
        older, value = value, ((up + down - t) * value - down * older) / up
    return value


@pytest.mark.parametrize("largest", [1, 3, 200])
def test_products_of_powers(largest: int) -> None:
    rng = np.random.default_rng(largest)
    counts = rng.integers(1, largest + 1, 9)
    forms, base, rest = rng.random((9, 70)), rng.random(9), 0.3
    wanted = (counts[:, None] * np.log(base[:, None] + rest * forms)).sum(axis=0)
    bit_ends, bit_features = np.empty(64, np.int64), np.empty(64 * 9, np.int64)
    n_bits = list_bits(counts, 9, bit_ends, bit_features)
    out, powers, products = np.zeros(70), np.empty(70), np.empty(70)
    low = base + rest * forms.min(axis=1)
    low_bits = low.view(np.int64)
    assert exponent_sum(low_bits, counts, 9) == (counts * np.floor(np.log2(low))).sum()
    log_products(forms, base, rest, (low_bits, counts, 9), 70, (powers, products), out)
    np.testing.assert_allclose(out, wanted, rtol=1e-14)
    if largest < 200:
        plain_products(forms, base, rest, (bit_ends, n_bits, bit_features), 70, out)
        np.testing.assert_allclose(out, np.exp(wanted), rtol=1e-13)


def test_beta_rule_of_parameters_far_apart() -> None:
    # The first eigenvalue is lost beside the largest: where it came out just above the first node, this was NaN.
    rng = np.random.default_rng(0)
    cases = [(int(rng.integers(2, 8)), 10.0 ** rng.uniform(-32, 0), 10.0 ** rng.uniform(0, 28)) for _ in range(300)]
    for n, p, r in [(3, 1.7187632550205862e-30, 6.19887101924014e25), *cases]:
        rule = beta_rule(n, p, r)
        assert np.all(np.diff(rule.nodes, prepend=0.0) > 0)
        mean = np.log(rule.nodes) + rule.log_weights
        assert np.logaddexp.reduce(mean) == pytest.approx(np.log(p) - np.log(p + r), abs=1e-11)
