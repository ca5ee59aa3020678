"""Keys address random streams: every field counts, nothing advances, and any random_state gives one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from partwise.core.keys import Key, key_from
from partwise.errors import InvalidInputError


def test_fields() -> None:
    key = Key(7).for_stage("init").for_chain(3).at(11)
    assert (key.seed, key.chain, key.iteration) == (7, 3, 11)
    assert key == Key(7).at(11).for_chain(3).for_stage("init")
    assert hash(key) == hash(Key(7).for_stage("init").for_chain(3).at(11))


def test_words_tell_all_fields_apart() -> None:
    keys = [
        Key(seed, stage, chain, iteration)
        for seed in (0, 1, 2**64 - 1)
        for stage in (0, 1, 2**32 - 1)
        for chain in (0, 1, 2**32 - 1)
        for iteration in (0, 1, 2**63)
    ]
    assert len({key.words for key in keys}) == len(keys)
    for key in keys:
        assert all(isinstance(word, np.uint64) for word in key.words)


def test_stage_names_are_stable() -> None:
    """They are part of what a seed means: a change here changes every result."""
    assert Key(0).for_stage("init").stage == 3_329_549_428
    assert Key(0).for_stage("split").stage == 2_985_662_993
    assert Key(0).for_stage("simulate").stage != Key(0).for_stage("init").stage


def test_generators() -> None:
    key = Key(5).for_stage("init")
    first = key.generator().random(4)
    np.testing.assert_array_equal(key.generator().random(4), first)
    for other in (Key(6).for_stage("init"), Key(5), key.at(1), key.for_chain(1)):
        assert not np.array_equal(other.generator().random(4), first)


@pytest.mark.parametrize("seed", [0, 1, np.int32(5), np.uint64(2**64 - 1), 2**63])
def test_integers(seed: Any) -> None:
    assert key_from(seed) == Key(int(seed))


def test_generators_are_drawn_from_once() -> None:
    for make in (np.random.default_rng, np.random.RandomState):
        state = make(3)
        first, second = key_from(state), key_from(state)
        assert first != second
        assert key_from(make(3)) == first
        assert 0 <= first.seed < 2**64


def test_none_is_a_new_seed_each_time() -> None:
    assert key_from(None) != key_from(None)


@pytest.mark.parametrize("given", [-1, 1.5, "seed", [1, 2], np.random])
def test_what_is_no_seed_is_refused(given: Any) -> None:
    sentence = f"random_state must be a nonnegative integer, a Generator, a RandomState or None, got {given!r}."
    with pytest.raises(InvalidInputError, match=f"^{re.escape(sentence)}$"):
        key_from(given)
