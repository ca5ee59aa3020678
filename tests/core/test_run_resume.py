"""A resumed run gives the bits of a run that was never stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from toys import DATA, RandomWalk, Report, WalkState, environment

from partwise.core.checkpoint import Checkpoint, read_checkpoint
from partwise.core.keys import Key
from partwise.core.result import FitResult
from partwise.core.run import run
from partwise.core.stopping import SmallChange
from partwise.errors import FileFormatError, InvalidInputError

KEY = Key(2**64 - 5, stage=2**32 - 1, chain=3)
N_ITER = 9


def assert_same_bits(result: FitResult[WalkState], expected: FitResult[WalkState]) -> None:
    for field in fields(WalkState):
        value, wanted = getattr(result.state, field.name), getattr(expected.state, field.name)
        assert type(value) is type(wanted), field.name
        if isinstance(value, np.ndarray):
            assert (value.dtype, value.shape, value.flags.f_contiguous) == (
                wanted.dtype,
                wanted.shape,
                wanted.flags.f_contiguous,
            )
            assert value.tobytes() == wanted.tobytes(), field.name
        else:
            assert value == wanted, field.name
    assert result.trace.keys() == expected.trace.keys()
    for name in set(result.trace) - {"elapsed"}:
        assert result.trace[name].tobytes() == expected.trace[name].tobytes(), name
    assert (np.diff(result.trace["elapsed"]) > 0).all()
    assert (result.n_iter, result.status.code) == (expected.n_iter, expected.status.code)


@pytest.fixture
def whole() -> FitResult[WalkState]:
    return run(RandomWalk(), DATA, key=KEY, max_iter=N_ITER)


@pytest.mark.parametrize("at", range(N_ITER + 1))
def test_resume_from_every_iteration(at: int, whole: FitResult[WalkState], tmp_path: Path) -> None:
    path = tmp_path / "walk.checkpoint"
    run(RandomWalk(), DATA, key=KEY, max_iter=at, checkpoint=Checkpoint(path, iterations=4))
    assert len(read_checkpoint(path).trace) == at
    assert_same_bits(run(RandomWalk(), DATA, key=KEY, max_iter=N_ITER, resume_from=path), whole)


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 2), (3, 7), (4, 4), (8, 9)])
def test_resume_twice(first: int, second: int, whole: FitResult[WalkState], tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "walk.checkpoint", iterations=1)
    run(RandomWalk(), DATA, key=KEY, max_iter=first, checkpoint=checkpoint)
    run(RandomWalk(), DATA, key=KEY, max_iter=second, checkpoint=checkpoint, resume_from=checkpoint.path)
    assert_same_bits(run(RandomWalk(), DATA, key=KEY, max_iter=N_ITER, resume_from=checkpoint.path), whole)
    # The file is not changed by a resume, so another from the same file gives the same.
    assert_same_bits(run(RandomWalk(), DATA, key=None, max_iter=N_ITER, resume_from=checkpoint.path), whole)


def test_a_lost_memory_order_would_be_seen() -> None:
    """The state is chosen so that restoring its Fortran array in C order gives other bits: the tests above can fail."""
    state = RandomWalk().init(KEY.at(0), DATA)
    assert np.ascontiguousarray(state.momentum).sum() != state.momentum.sum()


def test_resume_continues_the_clock(tmp_path: Path) -> None:
    path = tmp_path / "walk.checkpoint"
    walk = RandomWalk(pause=0.01)
    run(walk, DATA, key=KEY, max_iter=3, checkpoint=Checkpoint(path))
    elapsed = run(walk, DATA, key=KEY, max_iter=4, resume_from=path).trace["elapsed"]
    assert elapsed[2] >= 0.03
    assert elapsed[2] + 0.01 <= elapsed[3] < elapsed[2] + 1.0


@pytest.mark.parametrize("every", [1, 3, 100])
def test_convergence_comes_at_the_same_iteration(every: int, tmp_path: Path) -> None:
    rule = SmallChange(0.05, patience=3)
    algorithm = Report(tuple(-1.0 / i if i % 3 else None for i in range(1, 400)))
    whole = run(algorithm, None, key=KEY, max_iter=399, convergence=rule)
    assert whole.status.converged
    for at in (1, whole.n_iter - 2, whole.n_iter - 1):
        checkpoint = Checkpoint(tmp_path / f"{at}.checkpoint", iterations=every)
        run(algorithm, None, key=KEY, max_iter=at, convergence=rule, checkpoint=checkpoint)
        resumed = run(algorithm, None, key=KEY, max_iter=399, convergence=rule, resume_from=checkpoint.path)
        assert (resumed.n_iter, resumed.status) == (whole.n_iter, whole.status)


def test_a_finished_run_is_returned(tmp_path: Path) -> None:
    path = tmp_path / "walk.checkpoint"
    rule = SmallChange(0.5)
    done = run(RandomWalk(), DATA, key=KEY, max_iter=500, convergence=rule, checkpoint=Checkpoint(path))
    assert done.status.converged
    walk = RandomWalk()
    assert_same_bits(run(walk, DATA, key=KEY, max_iter=500, convergence=rule, resume_from=path), done)
    assert walk.seen == [KEY.at(0)]
    assert run(walk, DATA, key=KEY, max_iter=3, resume_from=path).n_iter == done.n_iter


def test_a_stopped_run_goes_on(whole: FitResult[WalkState], tmp_path: Path) -> None:
    path = tmp_path / "walk.checkpoint"
    stopped = run(
        RandomWalk(),
        DATA,
        key=KEY,
        max_iter=N_ITER,
        checkpoint=Checkpoint(path),
        callbacks=[lambda iteration, state, trace: iteration == 2],
    )
    assert stopped.status.code == "stopped"
    assert f"resume from {path}" in stopped.status.message
    assert_same_bits(run(RandomWalk(), DATA, key=KEY, max_iter=N_ITER, resume_from=path), whole)


@pytest.mark.parametrize(
    ("algorithm", "data", "key", "words"),
    [
        (RandomWalk(scale=0.2), DATA, KEY, "with other parameters; use the same ones"),
        (RandomWalk(), DATA[:3], KEY, r"for other data \(4 x 3; now 3 x 3\)"),
        (RandomWalk(), DATA + 1e-15, KEY, "for other data"),
        (RandomWalk(), DATA, KEY.for_chain(4), "with another seed"),
        (Report((0.0,) * 9), DATA, KEY, "by toys.RandomWalk, and this fit runs toys.Report"),
    ],
)
def test_another_fit_is_refused(algorithm, data, key: Key, words: str, tmp_path: Path) -> None:
    path = tmp_path / "walk.checkpoint"
    run(RandomWalk(), DATA, key=KEY, max_iter=2, checkpoint=Checkpoint(path))
    with pytest.raises(InvalidInputError, match=rf"cannot resume: the checkpoint .* was written {words}"):
        run(algorithm, data, key=key, max_iter=4, resume_from=path)


def test_what_does_not_take_part_in_comparison_may_differ(whole: FitResult[WalkState], tmp_path: Path) -> None:
    path = tmp_path / "walk.checkpoint"
    run(RandomWalk(), DATA, key=KEY, max_iter=2, checkpoint=Checkpoint(path))
    walk = replace(RandomWalk(), seen=[KEY, KEY])
    assert_same_bits(run(walk, DATA, key=KEY, max_iter=N_ITER, resume_from=path), whole)


def test_a_missing_file_and_a_foreign_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"there is no checkpoint .*; start without resume"):
        run(RandomWalk(), DATA, key=KEY, max_iter=1, resume_from=tmp_path / "none")
    (tmp_path / "foreign").write_bytes(b"something else")
    with pytest.raises(FileFormatError):
        run(RandomWalk(), DATA, key=KEY, max_iter=1, resume_from=tmp_path / "foreign")


KILLED = """
import sys
from toys import DATA, RandomWalk
from partwise.core.checkpoint import Checkpoint
from partwise.core.keys import Key
from partwise.core.run import run

checkpoint = Checkpoint(sys.argv[1], iterations=1)
run(RandomWalk(pause=0.002), DATA, key=Key(5), max_iter=10**6, checkpoint=checkpoint,
    callbacks=[lambda iteration, state, trace: print(iteration, flush=True)])
"""


def test_a_killed_process_is_resumed(tmp_path: Path) -> None:
    """SIGKILL at an arbitrary moment of a run that writes after every iteration, the same again, then to the end."""
    path = tmp_path / "walk.checkpoint"
    reached = 0
    for lines in (10, 15):
        program = KILLED if reached == 0 else KILLED.replace("callbacks=", "resume_from=sys.argv[1], callbacks=")
        command = [sys.executable, "-c", program, str(path)]
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(lines):
                assert process.stdout.readline()
            time.sleep(0.0013)
            process.kill()
            assert process.wait() == -signal.SIGKILL
        assert len(read_checkpoint(path).trace) >= reached + lines - 1
        reached = len(read_checkpoint(path).trace)
    walk = RandomWalk(pause=0.002)
    resumed = run(walk, DATA, key=Key(5), max_iter=reached + 5, resume_from=path)
    assert walk.seen[1] == Key(5).at(reached + 1)
    assert_same_bits(resumed, run(walk, DATA, key=Key(5), max_iter=reached + 5))
