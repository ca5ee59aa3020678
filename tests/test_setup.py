"""The Makefile and .ci/run say in one sentence what a machine lacks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files that set-up reads, in a folder of their own."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    return tmp_path


def run(folder: Path, *words: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": path or "/usr/local/bin:/usr/bin:/bin"}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def fake_python(folder: Path, fails_on: str) -> str:
    """A python that fails whenever its command line has some word."""
    program = folder / "fake-python"
    program.write_text(f'#!/bin/sh\ncase "$*" in *{fails_on}*) exit 1;; -V) echo Python 3.9.2;; esac\n')
    program.chmod(0o755)
    return str(program)


def sentence_of(done: subprocess.CompletedProcess[str]) -> str:
    """The first line that a failed command prints on standard error."""
    assert done.returncode != 0
    return done.stderr.splitlines()[0]


@pytest.mark.parametrize("target", ["demo", "test"])
def test_missing_python_is_named(clone: Path, target: str) -> None:
    sentence = sentence_of(run(clone, "make", target, "PYTHON=no-such-python"))
    assert "there is no no-such-python" in sentence
    assert "apt install python3 python3-venv" in sentence


def test_old_python_is_named(clone: Path) -> None:
    sentence = sentence_of(run(clone, "make", "demo", f"PYTHON={fake_python(clone, 'version_info')}"))
    assert "needs Python 3.11 or later" in sentence
    assert "Python 3.9.2" in sentence


def test_missing_venv_module_is_named(clone: Path) -> None:
    sentence = sentence_of(run(clone, "make", "demo", f"PYTHON={fake_python(clone, 'ensurepip')}"))
    assert "apt install python3-venv" in sentence
    assert not (clone / ".venv").exists()


def test_missing_make_is_named(clone: Path) -> None:
    programs = clone / "programs"
    programs.mkdir()
    for name in ("bash", "dirname"):
        (programs / name).symlink_to(str(shutil.which(name)))
    sentence = sentence_of(run(clone, str(programs / "bash"), ".ci/run", path=str(programs)))
    assert "apt install make" in sentence


def test_make_lists_its_targets(clone: Path) -> None:
    done = run(clone, "make")
    assert done.returncode == 0
    for target in ("demo", "test", "test-all", "test-browser", "test-faults", "dist", "bench", "docs", "lint", "clean"):
        assert f"make {target} " in done.stdout


@pytest.mark.parametrize("neighbour", [True, False])
def test_data_of_the_neighbour_are_found(clone: Path, neighbour: bool) -> None:
    repository = clone / "repository"
    repository.mkdir()
    text = (clone / "Makefile").read_text()
    (repository / "Makefile").write_text(text + '\nshow:\n\t@echo "[$$PARTWISE_DATA]"\n')
    if neighbour:
        (clone / "shared" / "data").mkdir(parents=True)
    shown = run(repository, "make", "show").stdout.strip()
    assert shown == (f"[{clone / 'shared' / 'data'}]" if neighbour else "[]")
    assert run(repository, "make", "show", "PARTWISE_DATA=elsewhere").stdout.strip() == "[elsewhere]"


def lent(clone: Path, *names: str, **scripts: str) -> str:
    """A folder with a few programs of this machine, and some made up for the test: all there is to find."""
    programs = clone / "programs"
    programs.mkdir()
    for name in ("bash", "dirname", "id", *names):
        (programs / name).symlink_to(str(shutil.which(name)))
    for name, text in scripts.items():
        program = programs / name.replace("_", "-")
        program.write_text(f"#!{shutil.which('bash')}\n{text}\n")
        program.chmod(0o755)
    return str(programs)


def test_missing_browser_is_named(clone: Path) -> None:
    programs = lent(clone)
    done = run(clone, f"{programs}/bash", ".ci/chromium", path=programs)
    assert done.returncode == 3
    assert "need chromium chromium-driver, and this is no Debian" in done.stderr
    assert "apt install chromium chromium-driver" in done.stderr


@pytest.mark.parametrize(
    ("user", "why"), [(0, "apt-get could not install it"), (1000, "only root may install packages")]
)
def test_browser_that_cannot_be_installed_is_named(clone: Path, user: int, why: str) -> None:
    programs = lent(clone, apt_get="echo no network >&2; exit 100", chromedriver="exit 0")
    (clone / "programs" / "id").unlink()
    (clone / "programs" / "id").write_text(f"#!{shutil.which('bash')}\necho {user}\n")
    (clone / "programs" / "id").chmod(0o755)
    done = run(clone, f"{programs}/bash", ".ci/chromium", path=programs)
    assert done.returncode == 3
    assert f"need chromium, and {why}" in done.stderr
    assert ("no network" in done.stderr) == (user == 0)


def test_browser_that_is_there_is_enough(clone: Path) -> None:
    programs = lent(clone, chromium="exit 0", chromedriver="exit 0")
    assert run(clone, f"{programs}/bash", ".ci/chromium", path=programs).returncode == 0


@pytest.mark.parametrize("fails", ["", "test", "test-faults", "test-browser"])
def test_check_runs_browser_tests_where_there_is_a_browser(clone: Path, fails: str) -> None:
    programs = lent(clone, make=f'echo "made $1"; [ "$1" != "{fails}" ]', chromium="exit 0", chromedriver="exit 0")
    (clone / "programs" / "env").symlink_to(str(shutil.which("env")))
    done = run(clone, f"{programs}/bash", ".ci/run", path=programs)
    assert done.returncode == (1 if fails else 0)
    targets = ["test", "test-faults", "test-browser"]
    reached = targets[: targets.index(fails) + 1] if fails else targets
    assert done.stdout.splitlines() == [f"made {target}" for target in reached]


def test_check_says_loudly_that_there_is_no_browser(clone: Path) -> None:
    programs = lent(clone, make='echo "made $1"')
    (clone / "programs" / "env").symlink_to(str(shutil.which("env")))
    done = run(clone, f"{programs}/bash", ".ci/run", path=programs)
    assert done.returncode == 0
    assert done.stdout == "made test\nmade test-faults\n"
    assert "THE BROWSER TESTS DID NOT RUN" in done.stderr
