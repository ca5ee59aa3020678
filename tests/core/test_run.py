"""The run loop: what steps get, what results hold, how runs end."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import pytest
from toys import DATA, Counter, RandomWalk, Report

from partwise.core.keys import Key
from partwise.core.run import run
from partwise.core.stopping import SmallChange, StopFit, Threshold
from partwise.errors import DivergedError, InvalidInputError

KEY = Key(7, stage=3, chain=1)


def test_each_iteration_gets_its_own_key() -> None:
    walk = RandomWalk()
    result = run(walk, DATA, key=KEY, max_iter=5)
    assert walk.seen == [KEY.at(iteration) for iteration in range(6)]
    assert result.n_iter == result.state.steps == 5


def test_trace_has_a_row_per_iteration_and_nan_where_nothing_was_computed() -> None:
    trace = run(RandomWalk(), DATA, key=KEY, max_iter=5).trace
    assert trace["iteration"].tolist() == [1, 2, 3, 4, 5]
    assert trace["n_active"].tolist() == [1, 2, 0, 1, 2]
    assert np.isnan(trace["objective"]).tolist() == [True, False, True, False, True]
    assert (np.diff(trace["elapsed"]) > 0).all()
    assert trace["elapsed"][0] > 0


def test_same_key_same_bits_and_other_key_other_bits() -> None:
    first, again, other = (run(RandomWalk(), DATA, key=key, max_iter=6).state for key in (KEY, KEY, KEY.for_chain(2)))
    assert first.position.tobytes() == again.position.tobytes()
    assert first.position.tobytes() != other.position.tobytes()


def test_no_iterations_give_the_initial_state() -> None:
    result = run(RandomWalk(), DATA, key=KEY, max_iter=0)
    assert (result.n_iter, len(result.trace), result.status.code) == (0, 0, "max_iter")
    assert result.state.position.tobytes() == RandomWalk().init(KEY.at(0), DATA).position.tobytes()


def test_warm_start_begins_from_a_copy() -> None:
    first = run(RandomWalk(), DATA, key=KEY, max_iter=3)
    kept = first.state.position.copy()
    walk = RandomWalk()
    second = run(walk, DATA, key=KEY.for_chain(9), max_iter=2, initial_state=first.state)
    assert second.state.steps == 5
    assert first.state.position.tobytes() == kept.tobytes()
    assert walk.seen[0] == KEY.for_chain(9).at(1)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ({"max_iter": 4}, "max_iter", "Ran the 4 iterations that you asked for"),
        ({"max_iter": 4, "convergence": SmallChange(1e-9)}, "max_iter", "raise max_iter= (now 4) or tol=, and fit"),
        (
            {"max_iter": 50, "convergence": SmallChange(0.19)},
            "converged",
            "Converged after 6 iterations: the objective",
        ),
        (
            {"max_iter": 50, "callbacks": [lambda iteration, state, trace: iteration == 3]},
            "stopped",
            "callback <lambda>",
        ),
    ],
)
def test_status_says_why_and_what_to_do(arguments: dict, code: str, words: str) -> None:
    values = tuple(-1.0 / iteration for iteration in range(1, 51))
    status = run(Report(values), None, key=KEY, **arguments).status
    assert status.code == code
    assert status.converged == (code == "converged")
    assert words in str(status)


def test_all_callbacks_see_every_iteration_and_the_first_reason_counts() -> None:
    calls: list[tuple[str, int, int, int]] = []

    def watch(iteration: int, state: Counter, trace) -> str:
        calls.append(("watch", iteration, state.value, len(trace)))
        return "a truthy value that is not True"

    def stop(iteration: int, state: Counter, trace) -> None:
        calls.append(("stop", iteration, state.value, len(trace)))
        if iteration == 2:
            raise StopFit("enough was seen")

    def late(iteration: int, state: Counter, trace) -> np.bool_:
        calls.append(("late", iteration, state.value, len(trace)))
        return np.bool_(iteration == 2)

    result = run(Report((0.0,) * 9), None, key=KEY, max_iter=9, callbacks=[watch, stop, late])
    assert calls == [(name, i, i, i) for i in (1, 2) for name in ("watch", "stop", "late")]
    assert result.status.code == "stopped"
    assert "after 2 iterations because enough was seen" in result.status.message


def test_callbacks_see_the_iteration_that_converged() -> None:
    seen: list[int] = []
    result = run(
        Report((3.0, 2.0, 0.5, 0.1), "kkt_residual"),
        None,
        key=KEY,
        max_iter=4,
        convergence=Threshold("kkt_residual", 0.5),
        callbacks=[lambda iteration, state, trace: seen.append(iteration)],
    )
    assert result.status.converged
    assert seen == [1, 2, 3]


def test_what_cannot_be_called_is_no_callback() -> None:
    with pytest.raises(InvalidInputError, match=r"callbacks\[1\] is 3, which cannot be called"):
        run(Report((0.0,)), None, key=KEY, max_iter=1, callbacks=[print, 3])


def test_an_error_in_a_callback_comes_out() -> None:
    def broken(iteration: int, state: Counter, trace) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(Report((0.0,)), None, key=KEY, max_iter=1, callbacks=[broken])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_objective_that_is_not_a_number_is_an_error(bad: float) -> None:
    with pytest.raises(DivergedError, match=r"at iteration 2 of Report: .*random_state"):
        run(Report((-1.0, bad)), None, key=KEY, max_iter=2)


def test_an_objective_of_minus_infinity_is_a_start_like_any_other() -> None:
    values = (-math.inf, -math.inf, -5.0, -5.0)
    result = run(Report(values), None, key=KEY, max_iter=4, convergence=SmallChange(1e-3))
    assert result.n_iter == 4
    assert result.status.converged


def test_draws_of_the_state_are_in_the_result() -> None:
    @dataclass
    class Chain:
        draws: np.ndarray

    class Sampler:
        def init(self, key: Key, data: None) -> Chain:
            return Chain(np.zeros(3))

        def step(self, key: Key, data: None, state: Chain) -> tuple[Chain, dict[str, float]]:
            state.draws[key.iteration - 1] = key.iteration
            return state, {}

    assert run(Sampler(), None, key=KEY, max_iter=3).draws.tolist() == [1, 2, 3]
    assert run(Report((0.0,)), None, key=KEY, max_iter=1).draws is None


def test_bad_arguments() -> None:
    with pytest.raises(InvalidInputError, match="max_iter must not be negative, got -1"):
        run(RandomWalk(), DATA, key=KEY, max_iter=-1)
    with pytest.raises(InvalidInputError, match="only together with resume_from"):
        run(RandomWalk(), DATA, key=None, max_iter=1)


def test_the_loop_costs_little() -> None:
    """Below 20 µs of processor time an iteration (3 to 4 measured), the best of five."""
    n_iter = 2000
    values = tuple(-1.0 - 1.0 / iteration for iteration in range(1, n_iter + 1))
    best = math.inf
    for _ in range(5):
        started = time.process_time()
        run(Report(values), None, key=KEY, max_iter=n_iter, convergence=SmallChange(0.0))
        best = min(best, time.process_time() - started)
    assert best / n_iter < 20e-6
