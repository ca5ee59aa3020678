"""The order of sums."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from sums import adversarial, reference

from partwise.engines.tree import TreeSum, add


def tree_sum(terms: list[Any], order: Any) -> Any:
    total: TreeSum[Any] = TreeSum(len(terms))
    for index in order:
        total.put(index, terms[index])
    return total.result()


@pytest.mark.parametrize("n_terms", range(1, 6))
def test_every_order_of_arrival_gives_the_documented_tree(n_terms: int) -> None:
    terms = adversarial(n_terms)
    for order in itertools.permutations(range(n_terms)):
        assert tree_sum(terms, order) == reference(terms)


@pytest.mark.parametrize("n_terms", [6, 7, 8, 9, 31, 64, 100, 1000])
def test_many_terms_in_random_order(n_terms: int, rng: np.random.Generator) -> None:
    terms = adversarial(n_terms)
    expected = reference(terms)
    for _ in range(10):
        assert tree_sum(terms, rng.permutation(n_terms)) == expected


def test_a_plain_sum_in_order_of_arrival_would_be_seen(rng: np.random.Generator) -> None:
    """Summing these terms as they arrive gives other bits in nearly every order: the tests above can fail."""
    terms = np.array(adversarial(64))
    sums = {float(sum(terms[rng.permutation(64)].tolist())) for _ in range(20)}
    assert len(sums) > 10


def test_terms_in_order_take_up_a_logarithm_of_nodes() -> None:
    total: TreeSum[float] = TreeSum(1000)
    most = 0
    for index in range(1000):
        total.put(index, 1.0)
        most = max(most, len(total._waiting))
    assert total.result() == 1000.0
    assert most <= 10


def test_functions_that_only_fill_arrays_have_nothing_to_sum() -> None:
    assert tree_sum([None] * 3, [2, 0, 1]) is None
    assert tree_sum([(None, 1.0)] * 3, [2, 0, 1]) == (None, 3.0)


def test_the_memory_of_the_left_term_is_used() -> None:
    terms = [np.full(3, float(index)) for index in range(5)]
    result = tree_sum(terms, [3, 1, 4, 0, 2])
    assert result is terms[0]
    assert result.tolist() == [10.0, 10.0, 10.0]


class Pair(NamedTuple):
    counts: np.ndarray
    score: float


@dataclass(frozen=True)
class Parts:
    counts: np.ndarray
    pair: Pair
    n: int


def test_kinds_of_terms() -> None:
    def term(index: int) -> Parts:
        return Parts(np.full(2, index), Pair(np.full((1, 1), 0.5), 0.25), 1)

    result = tree_sum([term(index) for index in range(3)], [2, 1, 0])
    assert isinstance(result, Parts)
    assert isinstance(result.pair, Pair)
    assert (result.counts.tolist(), result.pair.counts.tolist(), result.pair.score, result.n) == (
        [3, 3],
        [[1.5]],
        0.75,
        3,
    )
    assert tree_sum([(1, np.float32(0.5)), (2, np.float32(0.25))], [0, 1]) == (3, np.float32(0.75))


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        (np.zeros(3), np.zeros(1), r"different shapes, \(3,\) and \(1,\)"),
        ((1.0, 2.0), (1.0,), "shorter"),
    ],
)
def test_terms_that_do_not_fit(left: Any, right: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        add(left, right)


def test_incomplete_and_empty_sums() -> None:
    total: TreeSum[float] = TreeSum(2)
    total.put(0, 1.0)
    with pytest.raises(RuntimeError, match="not complete"):
        total.result()
    with pytest.raises(ValueError, match="at least one term"):
        TreeSum(0)
