"""States as arrays and back, to the bit."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from toys import DATA, RandomWalk, Tail, WalkState

from partwise.core.keys import Key
from partwise.core.state import state_from_arrays, state_to_arrays


@dataclass
class One:
    value: object


def round_trip(value: object) -> object:
    arrays, layout = state_to_arrays(One(value))
    return state_from_arrays(One, arrays, json.loads(json.dumps(layout))).value


@pytest.mark.parametrize(
    "value",
    [
        0.1,
        -0.0,
        5e-324,
        math.inf,
        -math.inf,
        2**200,
        -3,
        True,
        False,
        None,
        "",
        "é\x00\n",
        np.float32(0.1),
        np.int8(-3),
    ],
)
def test_plain_values_keep_type_and_bits(value: object) -> None:
    back = round_trip(value)
    assert type(back) is type(value)
    assert back == value
    if isinstance(value, float):
        assert math.copysign(1.0, back) == math.copysign(1.0, value)


def test_a_nan_keeps_its_payload() -> None:
    value = np.array(0x7FF8_0000_0000_BEEF, dtype=np.uint64).view(np.float64)
    assert np.float64(round_trip(float(value))).tobytes() == value.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(3.5),
        np.zeros((0, 4)),
        np.array([True, False]),
        np.arange(4, dtype=np.uint16),
    ],
)
def test_arrays_keep_type_shape_and_order_and_can_be_written(array: np.ndarray) -> None:
    back = round_trip(array)
    assert isinstance(back, np.ndarray)
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert (back.flags.c_contiguous, back.flags.f_contiguous) == (array.flags.c_contiguous, array.flags.f_contiguous)
    assert back.flags.writeable
    assert not np.shares_memory(back, array)


def test_lists_of_arrays() -> None:
    chains = [np.arange(3.0), np.arange(2, dtype=np.uint8)]
    arrays, layout = state_to_arrays(One([*chains, 0.5]))
    assert set(arrays) == {"value.0", "value.1", "value.2"}
    back = state_from_arrays(One, arrays, json.loads(json.dumps(layout))).value
    assert isinstance(back, list)
    assert back[2] == 0.5
    for ours, theirs in zip(back, chains, strict=False):
        assert (ours.dtype, ours.tobytes()) == (theirs.dtype, theirs.tobytes())
        assert not np.shares_memory(ours, theirs)


def test_nested_states() -> None:
    state = RandomWalk().init(Key(1), DATA)
    arrays, layout = state_to_arrays(state)
    assert set(arrays) == {"position", "momentum", "total", "weight", "tail.scale"}
    back = state_from_arrays(WalkState, arrays, layout)
    assert back.tail == Tail(0.7, "é")


@dataclass
class Outer:
    tail: Tail | None
    other: Tail | int


@pytest.mark.parametrize("state", [Outer(None, 3), Outer(Tail(1.0, None), Tail(2.0, "b"))])
def test_a_nested_state_may_be_absent(state: Outer) -> None:
    assert state_from_arrays(Outer, *state_to_arrays(state)) == state


def test_fields_are_set_as_they_were() -> None:
    @dataclass(frozen=True)
    class Derived:
        total: float
        share: float = field(init=False, default=0.0)

        def __post_init__(self) -> None:
            object.__setattr__(self, "share", self.total / 3.0)

    state = Derived(1.0)
    object.__setattr__(state, "share", 0.25)
    assert state_from_arrays(Derived, *state_to_arrays(state)).share == 0.25


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros((4, 4))[:, :2], "'value' must be a contiguous array"),
        (np.zeros(3, dtype=">f8" if np.little_endian else "<f8"), "native byte order"),
        ({1, 2}, "'value' is a set"),
        (1j, "'value' is a complex"),
        (Tail({1}, None), r"'value\.scale' is a set"),  # type: ignore[arg-type]
        (Tail, "'value' is a type"),
    ],
)
def test_what_cannot_be_kept_to_the_bit_is_an_error(value: object, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        state_to_arrays(One(value))


def test_a_state_is_a_dataclass() -> None:
    for value in ({"a": 1}, One):
        with pytest.raises(TypeError, match="instance of a dataclass"):
            state_to_arrays(value)


def test_another_class_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not fit a state of class Tail"):
        state_from_arrays(Tail, *state_to_arrays(One(1.0)))
