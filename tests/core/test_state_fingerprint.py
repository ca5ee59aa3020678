"""Fingerprints change with everything that can change a result, and with nothing else."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np
import pytest
import scipy.sparse as sp
from toys import DATA, RandomWalk, environment

from partwise.core.data import CountMatrix
from partwise.core.state import fingerprint
from partwise.engines import LocalEngine


@dataclass(frozen=True)
class Parameters:
    rate: float
    buffer: object = field(default=None, compare=False)


@dataclass(frozen=True)
class Others:
    rate: float


class Plain:
    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._cache = object()


def test_different_things_have_different_fingerprints() -> None:
    things = [
        *(
            None,
            0,
            False,
            0.0,
            -0.0,
            "0",
            b"0",
            "",
            (),
            [],
            {},
            (0,),
            [0],
            ((),),
            ([], []),
            [[], [[]]],
            [[], 0],
            [[0]],
            {"a": 0},
            {0: "a"},
        ),
        *(np.float32(0.1), np.float64(0.1), 0.1),
        *(
            np.zeros(2),
            np.zeros((2, 1)),
            np.zeros((1, 2)),
            np.zeros(2, dtype=np.float32),
            np.zeros(2, dtype=np.int64),
            np.array([0.0, -0.0]),
        ),
        *(np.zeros(0), np.zeros((0, 2)), np.array(["a", "b"], dtype=object), np.array(["a", "b"])),
        *(sp.csr_array(np.eye(2)), sp.csr_array(np.eye(3)), sp.csr_array(np.eye(2)[::-1])),
        *(Parameters(1.0), Parameters(2.0), Others(1.0), Plain(1.0), Plain(2.0), np.exp, Plain),
    ]
    by_print: dict[str, object] = {}
    for thing in things:
        assert by_print.setdefault(fingerprint(thing), thing) is thing


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (Parameters(1.0, "scratch"), Parameters(1.0)),
        (Plain(1.0), Plain(1.0)),
        (LocalEngine(1), LocalEngine(2)),
        (np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3))),
        (np.arange(8.0)[::2], np.arange(0.0, 8.0, 2.0)),
        (sp.csr_array(np.eye(3)), sp.coo_array(np.eye(3))),
    ],
)
def test_what_changes_no_result_changes_no_fingerprint(left: object, right: object) -> None:
    assert fingerprint(left) == fingerprint(right)


def test_a_fingerprint_does_not_change_from_process_to_process() -> None:
    """Checkpoints outlive processes: neither hash seeds nor addresses may be in it."""
    program = "from toys import *; from partwise.core.state import *; print(fingerprint([RandomWalk(), DATA]))"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(PYTHONHASHSEED="1"), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == fingerprint([RandomWalk(), DATA])


def test_data_are_known_by_their_cells() -> None:
    counts = np.array([[1, 0, 2], [0, 3, 0]])
    variants = [counts, counts * 2, counts[:, ::-1], counts.T, np.pad(counts, 1)]
    prints = [fingerprint(CountMatrix.build(variant)) for variant in variants]
    assert all(left != right for left, right in itertools.combinations(prints, 2))
    data = CountMatrix.build(counts)
    before = fingerprint(data)
    assert data.transposed.shape == (3, 2)
    assert fingerprint(data) == before


def test_an_object_of_unknown_content_is_an_error() -> None:
    with pytest.raises(TypeError, match="give it a method fingerprint"):
        fingerprint(object())
