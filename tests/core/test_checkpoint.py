"""Checkpoint files: when they are written, and that only whole ones are read."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from toys import DATA, RandomWalk, Report

from partwise.core import checkpoint as module
from partwise.core.checkpoint import Checkpoint, read_checkpoint
from partwise.core.keys import Key
from partwise.core.run import run
from partwise.errors import CheckpointWarning, FileFormatError, InvalidInputError
from partwise.io.arrays import load_arrays, save_arrays

KEY = Key(11)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Iterations at which a file was written."""
    iterations: list[int] = []

    def save(path, arrays, metadata) -> None:
        iterations.append(metadata["iteration"])
        save_arrays(path, arrays, metadata)

    monkeypatch.setattr(module, "save_arrays", save)
    return iterations


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.checkpoint"


def test_every_n_iterations_and_at_the_end(written: list[int], path: Path) -> None:
    run(RandomWalk(), DATA, key=KEY, max_iter=8, checkpoint=Checkpoint(path, iterations=3))
    assert written == [3, 6, 8]
    run(RandomWalk(), DATA, key=KEY, max_iter=9, checkpoint=Checkpoint(path, iterations=3), resume_from=path)
    assert written == [3, 6, 8, 9]


def test_every_s_seconds(written: list[int], path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0

    def advance(iteration: int, state: object, trace: object) -> None:
        nonlocal now
        now += 2.0

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    run(RandomWalk(), DATA, key=KEY, max_iter=11, checkpoint=Checkpoint(path, seconds=5.0), callbacks=[advance])
    assert written == [3, 6, 9, 11]
    assert Checkpoint(path).seconds == 60.0


def test_a_run_of_no_iterations_is_a_checkpoint_too(path: Path) -> None:
    run(RandomWalk(), DATA, key=KEY, max_iter=0, checkpoint=Checkpoint(path))
    stored = read_checkpoint(path)
    assert (len(stored.trace), stored.identity.key) == (0, KEY)


def test_a_folder_that_vanishes_does_not_end_the_fit(tmp_path: Path) -> None:
    """A real fault; full disks are in tests/faults."""
    path = tmp_path / "gone" / "a.checkpoint"
    path.parent.mkdir()

    def remove(iteration: int, state: object, trace: object) -> None:
        if iteration == 1:
            path.parent.rmdir()

    with pytest.warns(CheckpointWarning, match=r"could not be written \(.*there is no directory.*; the fit continues"):
        result = run(
            RandomWalk(), DATA, key=KEY, max_iter=4, checkpoint=Checkpoint(path, iterations=2), callbacks=[remove]
        )
    assert result.n_iter == 4


def test_a_file_for_the_case_of_a_stop_alone(path: Path) -> None:
    named: list[str] = []
    kept = Checkpoint(path, iterations=3, until_done=True, announced=named.append)
    run(RandomWalk(), DATA, key=KEY, max_iter=2, checkpoint=kept)
    assert not path.exists()
    run(RandomWalk(), DATA, key=KEY, max_iter=7, checkpoint=kept)
    assert len(read_checkpoint(path).trace) == 6
    assert named == [str(path)]


def test_a_folder_that_cannot_be_written_to_is_an_error_at_the_start(tmp_path: Path) -> None:
    walk = RandomWalk()
    with pytest.raises(InvalidInputError, match="is a directory; name a file in it"):
        run(walk, DATA, key=KEY, max_iter=4, checkpoint=Checkpoint(tmp_path))
    with pytest.raises(InvalidInputError, match=r"cannot write to the folder .*nowhere"):
        run(walk, DATA, key=KEY, max_iter=4, checkpoint=Checkpoint(tmp_path / "nowhere" / "a.checkpoint"))
    assert walk.seen == []


@pytest.mark.parametrize("arguments", [{"iterations": 0}, {"seconds": -1.0}, {"seconds": float("nan")}])
def test_bad_intervals(arguments: dict) -> None:
    with pytest.raises(InvalidInputError, match="checkpoint: "):
        Checkpoint("a.checkpoint", **arguments)


def test_every_truncation_is_refused(path: Path) -> None:
    run(Report((-2.0, None, -1.0)), None, key=KEY, max_iter=3, checkpoint=Checkpoint(path))
    content = path.read_bytes()
    for length in [*range(0, len(content), 97), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(FileFormatError):
            read_checkpoint(path)


def _change(content: tuple[dict, dict], where: str, value: object) -> None:
    arrays, metadata = content
    if where in arrays:
        arrays.pop(where)
        if value is not None:
            arrays[where] = value
    elif value is None:
        metadata.pop(where)
    else:
        metadata[where] = value


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        ("kind", "partwise model", "not a checkpoint of partwise"),
        ("version", 2, "of version 2 and this partwise reads 1"),
        ("version", None, "version None"),
        ("identity", None, "damaged"),
        ("identity", {"key": {"seed": 1, "colour": 2}}, "damaged"),
        ("identity", [1], "damaged"),
        ("layout", {"fields": {"value": {"value": 1}, "more": {"value": 1}}}, "does not fit a state of class Counter"),
        ("layout", {"fields": {"value": {"array": "C"}}}, "does not fit"),
        ("layout", {"fields": {"value": {"object": "os.system"}}}, "does not fit"),
        ("layout", {"fields": {"value": 3}}, "does not fit"),
        ("layout", {}, "damaged"),
        ("layout", "text", "damaged"),
        ("iteration", 2, "does not end at its iteration"),
        ("columns", ["iteration"], "needs a column 'elapsed'"),
        ("columns", [["iteration"]], "damaged"),
        ("trace/objective", None, "damaged"),
        ("trace/objective", np.zeros(2), "differ in length"),
        ("trace/iteration", np.array([1, 3, 2]), "not whole"),
        ("trace/iteration", np.array(3), "damaged"),
    ],
)
def test_damaged_content_is_refused(where: str, value: object, words: str, path: Path) -> None:
    algorithm = Report((-2.0, None, -1.0))
    run(algorithm, None, key=KEY, max_iter=3, checkpoint=Checkpoint(path))
    content = load_arrays(path)
    _change(content, where, value)
    save_arrays(path, *content)
    with pytest.raises(FileFormatError, match=words):
        run(algorithm, None, key=None, max_iter=3, resume_from=path)


def test_another_revision_is_refused(path: Path) -> None:
    """An algorithm that has changed would not give the bits of an uninterrupted run."""
    run(RandomWalk(), DATA, key=KEY, max_iter=2, checkpoint=Checkpoint(path))
    arrays, metadata = load_arrays(path)
    metadata["identity"]["revision"] = 7
    metadata["partwise"] = "0.0.9"
    save_arrays(path, arrays, metadata)
    with pytest.raises(InvalidInputError, match=r"by revision 7 of .*has revision 1; resume with partwise 0\.0\.9"):
        run(RandomWalk(), DATA, key=KEY, max_iter=3, resume_from=path)


def test_state_of_damaged_arrays_is_refused(path: Path) -> None:
    run(RandomWalk(), DATA, key=KEY, max_iter=1, checkpoint=Checkpoint(path))
    arrays, metadata = load_arrays(path)
    arrays["state/total"] = np.zeros(2)
    save_arrays(path, arrays, metadata)
    with pytest.raises(FileFormatError, match="damaged checkpoint"):
        run(RandomWalk(), DATA, key=KEY, max_iter=2, resume_from=path)


def test_a_reader_never_sees_half_a_file(path: Path) -> None:
    """A reader that looks all the time while a run writes after every iteration only ever reads whole checkpoints."""
    seen: list[int] = []

    def look(iteration: int, state: object, trace: object) -> None:
        if iteration > 1:
            seen.append(len(read_checkpoint(path).trace))

    run(RandomWalk(), DATA, key=KEY, max_iter=20, checkpoint=Checkpoint(path, iterations=1), callbacks=[look])
    assert seen == list(range(1, 20))
    assert os.listdir(path.parent) == [path.name]  # noqa: PTH208


def test_a_checkpoint_is_cheap(path: Path) -> None:
    """Below 50 ms of processor time for a state of 8 MB (about 8 measured), the best of five."""
    walk, data = RandomWalk(), np.zeros((1000, 1000))
    best = min(_seconds_to_write(walk, data, path) for _ in range(5))
    assert best < 0.05


def _seconds_to_write(walk: RandomWalk, data: np.ndarray, path: Path) -> float:
    writer: module.CheckpointWriter = module.CheckpointWriter(Checkpoint(path), module.Identity.of(KEY, walk, data))
    state = walk.init(KEY, data)
    started = time.process_time()
    writer.write(0, state, module.Trace())
    return time.process_time() - started
