"""Files are whole or not there; full disks and folders of other users are in tests/faults."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from partwise.io.atomic import atomic_path, write_atomically


def test_new_file_is_written_whole_and_alone(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a.csv.gz", lambda aside: aside.write_bytes(b"new"))
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv.gz"]
    assert (tmp_path / "a.csv.gz").read_bytes() == b"new"


def test_temporary_file_has_the_same_suffixes_and_directory(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "a.csv.gz") as aside:
        assert aside.parent == tmp_path.resolve()
        assert aside.suffixes[-2:] == [".csv", ".gz"]
        assert not (tmp_path / "a.csv.gz").exists()


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_failure_keeps_the_old_file_and_removes_the_temporary(tmp_path: Path, failure: type[BaseException]) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(aside: Path) -> None:
        aside.write_text("half")
        raise failure

    with pytest.raises(failure):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_of_new_and_of_replaced_files(tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.write_text("")
    write_atomically(tmp_path / "new", lambda aside: aside.write_text("x"))
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)
    usual.chmod(0o640)
    write_atomically(usual, lambda aside: aside.write_text("x"))
    assert stat.S_IMODE(usual.stat().st_mode) == 0o640


def test_symbolic_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomically(tmp_path / "link", lambda aside: aside.write_text("new"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no directory .*missing; create it first\.$"):
        write_atomically(tmp_path / "missing" / "a", lambda aside: aside.write_text("x"))


def test_directory_and_device_are_refused(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="it is a directory"):
        write_atomically(tmp_path, lambda aside: aside.write_text("x"))
    with pytest.raises(OSError, match="device or a pipe"):
        write_atomically(os.devnull, lambda aside: aside.write_text("x"))


def test_an_interrupt_right_after_the_file_was_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(number: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "close", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "result.txt", lambda aside: aside.write_text("whole"))
    assert list(tmp_path.iterdir()) == []
