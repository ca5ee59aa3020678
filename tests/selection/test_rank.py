"""select_rank finds the number of parts that data were drawn with."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from partwise.allocation import AllocationModel
from partwise.core.keys import Key
from partwise.errors import InaccurateWarning, InvalidInputError
from partwise.selection import select_rank

PRIORS = {"dictionary_concentration": 0.1, "activation_concentration": 0.3}


def drawn(n_components: int, seed: int) -> object:
    """30 x 40 counts, about 100 tokens a row."""
    return AllocationModel(40, n_components, 0.1, 0.3, 1000.0, 10.0).simulate(Key(seed), 30).counts


def chosen(n_components: int, seed: int) -> int:
    """By little effort, which says that it is little and yet finds the right number."""
    effort = {"n_islands": 4, "n_particles": 4, "n_stages": 30, "n_pilot": 100}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InaccurateWarning)
        return select_rank(drawn(n_components, seed), range(1, 9), random_state=0, **effort, **PRIORS).best


def test_finds_three_parts_and_one() -> None:
    assert [chosen(3, 0), chosen(1, 0)] == [3, 1]


@pytest.mark.slow
def test_finds_three_parts_in_17_of_20_and_one_in_5_of_5() -> None:
    assert sum(chosen(3, seed) == 3 for seed in range(20)) >= 17
    assert [chosen(1, seed) for seed in range(5)] == [1] * 5


def test_probabilities_and_own_criteria() -> None:
    found = select_rank(None, [3, 1, 2, 2], criterion=lambda X, k, *, rng: (-float(k), 0.0))
    np.testing.assert_array_equal(found.candidates, [1, 2, 3])
    weights = np.exp([-1.0, -2.0, -3.0])
    np.testing.assert_allclose(found.probabilities, weights / weights.sum())
    assert found.best == 1


def test_refused() -> None:
    with pytest.raises(InvalidInputError, match="candidates must name at least one number of parts"):
        select_rank([[1, 2]], [0, 1])
    with pytest.raises(InvalidInputError, match="criterion must be a function or one of marginal-likelihood"):
        select_rank([[1, 2]], [1], criterion="guess")


def test_says_where_errors_leave_the_choice_open() -> None:
    scores = {1: (-10.0, 3.0), 2: (-8.0, 0.1), 3: (-50.0, 9.0)}
    with pytest.warns(InaccurateWarning, match="cannot tell 2 from 1 parts: their scores differ by 2 nats"):
        select_rank(None, scores, criterion=lambda X, k, *, rng: scores[k])
    decided = {1: (-20.0, 3.0), 2: (-8.0, 0.1), 3: (-8.1, 0.1)}
    assert select_rank(None, decided, criterion=lambda X, k, *, rng: decided[k]).best == 2
