"""Bounds by which the lattice decides when to scale its states, against all states one by one; room that is reused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from partwise.likelihood.kernels.lanes import empty_lanes, new_lanes, set_weights
from partwise.likelihood.kernels.lattice import START, _least_share, scale_up
from partwise.likelihood.kernels.lattice_moments import _refresh
from partwise.likelihood.kernels.lattice_walk import _lost_at_once, _mixing, make_walk, present_states
from partwise.likelihood.kernels.rows import OpenRow, row_buffers

GO_ON = np.zeros(1, np.bool_)  # the flag that ends a kernel early, not raised


@pytest.mark.parametrize("n_components", [2, 3, 4])
@pytest.mark.parametrize("m", [0, 1, 5])
def test_no_state_keeps_less_of_a_step_than_the_bound(rng: np.random.Generator, n_components: int, m: int) -> None:
    weights, shapes = rng.random((3, n_components)), rng.gamma(1.0, size=n_components)
    row = row_buffers(np.array([0, 3]), np.array([0]), n_components, GO_ON)._replace(weights=weights, shapes=shapes)
    size = OpenRow(3, n_components, 9, 0.0, shapes.sum())
    states = [s for s in itertools.product(range(m + 1), repeat=n_components) if sum(s) == m]
    for feature in range(3):
        kept = [weights[feature] @ (shapes + state) / (shapes.sum() + m) for state in states]
        assert _least_share(row, size, feature, m) == pytest.approx(min(kept), rel=1e-12)


@pytest.mark.parametrize("n_components", [2, 3, 5])
@pytest.mark.parametrize("exponent", [-60, 0, 600])
def test_scaling_changes_exponents_only(rng: np.random.Generator, n_components: int, exponent: int) -> None:
    # A step keeps at least 1e-290 of the states, which are near 2^900 before it.
    walk, size, m = make_walk(n_components, 6), OpenRow(1, n_components, 6, 0.0, 1.0), 4
    first, number = present_states(walk, size, m)
    states = rng.random(first + number + 3)
    own = slice(first, first + number)
    states[own] = np.ldexp(states[own], exponent)
    before, scale = states.copy(), float(walk.scales[m])
    total = scale_up(states, size, m, walk)
    shift = int(walk.scales[m] - scale)
    np.testing.assert_array_equal(states[own], np.ldexp(before[own], shift))
    np.testing.assert_array_equal(np.delete(states, np.r_[own]), np.delete(before, np.r_[own]))
    assert total == pytest.approx(states[own].sum(), rel=1e-12)
    assert START - 1 <= math.log2(total) <= START
    states[own] = 0.0
    assert scale_up(states, size, m, walk) == 0.0


@pytest.mark.parametrize(("n_components", "n_tokens"), [(2, 1), (3, 40), (7, 300)])
def test_a_step_can_lose_one_smallest_number_a_state_and_term(n_components: int, n_tokens: int) -> None:
    n_states = math.comb(n_tokens + n_components - 1, n_tokens)
    expected = math.log(n_states * 2 * n_components * n_tokens) + (-1022 + 55) * math.log(2.0)
    assert _lost_at_once(n_components, n_tokens) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("exponent", [-400, 0, 300])
@pytest.mark.parametrize("place", [0, 3, 6])
def test_backward_states_have_room_on_both_sides(rng: np.random.Generator, place: int, exponent: int) -> None:
    states = np.ldexp(rng.random(9), exponent)
    states[place] *= 1e9
    states[7:] = 1e300  # beyond those that count
    before = states.copy()
    _refresh(states, 7)
    np.testing.assert_array_equal(states[7:], before[7:])
    shift = round(math.log2(states[place] / before[place]))
    np.testing.assert_array_equal(states[:7], np.ldexp(before[:7], shift))
    assert 99 <= math.log2(states[:7].max()) < 100


def test_mixing_proportions_are_those_of_em(rng: np.random.Generator) -> None:
    weights, counts = rng.random((4, 3)), np.array([5, 1, 9, 2])
    # Rows and components beyond those that are open hold what others left there.
    left = np.full((6, 5), np.nan)
    left[:4, :3] = weights
    row = row_buffers(np.array([0, 6]), np.array([0]), 5, GO_ON)
    row = row._replace(weights=left, counts=np.append(counts, [7, 7]))
    room = np.full((3, 5), 8.0)
    _mixing(row, OpenRow(4, 3, 17, 0.0, 1.0), room[:2])
    expected = np.full(3, 1 / 3)
    for _ in range(100):
        tokens = (counts / (weights @ expected)) @ weights * expected
        expected = (tokens + 1e-6) / (17 + 3e-6)
    np.testing.assert_allclose(room[0, :3], expected, rtol=1e-10)
    assert room[0, :3].sum() == pytest.approx(1.0)
    assert np.all(room[2] == 8.0)
    assert np.all(room[:, 3:] == 8.0)


def test_weights_of_lanes_are_padded_with_zeros(rng: np.random.Generator) -> None:
    left = np.full((6, 5), 9.0)  # of a row before, with more features and components
    left[:4, :3] = rng.random((4, 3))
    row = row_buffers(np.array([0, 6]), np.array([0]), 5, GO_ON)._replace(weights=left)
    room = new_lanes(GO_ON, 6, 5, 4, 8)
    for array in (room.weights, room.shapes, room.counts, room.log_weights):
        array[...] = 7.0
    set_weights(row, OpenRow(4, 3, 17, 0.0, 1.0), room)
    np.testing.assert_array_equal(room.weights[:4, :3], left[:4, :3])
    assert not room.weights[:4, 3:].any()
    assert np.all(room.weights[4:] == 7.0)
    empty_lanes(room)
    assert not any(array.any() for array in (room.shapes, room.counts, room.log_weights))
