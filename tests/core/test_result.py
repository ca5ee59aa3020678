"""The trace and the status."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

from partwise.core.result import Status, Trace
from partwise.io.arrays import load_arrays, save_arrays


@pytest.fixture
def trace() -> Trace:
    trace = Trace()
    trace.append(1, 0.1, {"n_active": 5})
    trace.append(2, 0.2, {"objective": -7.0, "n_active": np.int64(4)})
    trace.append(3, 0.3, {})
    trace.append(4, 0.4, {"kkt_residual": np.float32(0.5), "objective": -6.0})
    return trace


NAN = float("nan")
EXPECTED = {
    "iteration": [1, 2, 3, 4],
    "elapsed": [0.1, 0.2, 0.3, 0.4],
    "objective": [NAN, -7.0, NAN, -6.0],
    "n_active": [5.0, 4.0, NAN, NAN],
    "kkt_residual": [NAN, NAN, NAN, 0.5],
}


def assert_expected(trace: Trace) -> None:
    assert trace.keys() == tuple(trace) == tuple(EXPECTED)
    for name, values in EXPECTED.items():
        np.testing.assert_array_equal(trace[name], values)
        assert trace[name].dtype == (np.int64 if name == "iteration" else np.float64)


def test_columns_may_come_late_and_have_holes(trace: Trace) -> None:
    assert_expected(trace)
    assert len(trace) == 4
    assert "kkt_residual" in trace
    assert "rank" not in trace
    assert repr(trace) == "Trace(4 iterations, objective -6)"
    with pytest.raises(KeyError, match="no column 'rank'; it has iteration, elapsed, objective, n_active"):
        trace["rank"]


def test_evaluated_leaves_out_the_holes(trace: Trace) -> None:
    iterations, values = trace.evaluated()
    assert (iterations.tolist(), values.tolist()) == ([2, 4], [-7.0, -6.0])
    assert trace.evaluated("n_active")[0].tolist() == [1, 2]


def test_latest_is_newest_first(trace: Trace) -> None:
    assert trace.latest("objective") == [(4, -6.0)]
    assert trace.latest("objective", 5) == [(4, -6.0), (2, -7.0)]
    assert trace.latest("rank") == []
    assert Trace().latest("objective") == []


def test_round_trips(trace: Trace, tmp_path: Path) -> None:
    save_arrays(tmp_path / "trace", trace.to_arrays(), {})
    arrays, _ = load_arrays(tmp_path / "trace")
    assert_expected(Trace.from_arrays({name: arrays[name] for name in EXPECTED}))
    assert_expected(pickle.loads(pickle.dumps(trace)))
    assert_expected(copy.deepcopy(trace))
    frame = trace.to_frame()
    assert frame["objective"].tolist()[1] == -7.0
    assert list(frame) == list(EXPECTED)


def test_a_trace_read_from_a_file_can_grow(trace: Trace) -> None:
    back = Trace.from_arrays(trace.to_arrays())
    back.append(5, 0.5, {"objective": -5.0})
    assert back["objective"][-1] == -5.0
    assert len(trace) == 4


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"iteration": np.arange(2)}, "needs a column 'elapsed'"),
        ({"iteration": np.arange(2), "elapsed": np.zeros(2), "objective": np.zeros(3)}, "differ in length"),
        ({"iteration": np.arange(2), "elapsed": np.zeros(2), "objective": np.zeros((2, 2))}, "differ in length"),
    ],
)
def test_arrays_that_are_not_a_trace(arrays: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Trace.from_arrays(arrays)


def test_status_reads_as_its_sentence() -> None:
    assert str(Status("converged", "It converged.")) == "It converged."
    assert Status("converged", "").converged
    assert not Status("max_iter", "").converged
