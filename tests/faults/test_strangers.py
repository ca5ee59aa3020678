"""A user who may write nowhere, kernels cut short, two writers at once, and little memory."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from faults_tools import command, leftovers, run

import partwise

PACKAGE = Path(partwise.__file__).parent


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that all users may read; pytest's own are for one user."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_random_user_without_a_home(counts: Path, open_folder: Path) -> None:
    """As containers on shared clusters run it: no name, no home, and a package that others installed."""
    if shutil.which("setpriv") is None or os.geteuid() != 0:
        pytest.skip("another user can be played by root alone, with the program setpriv")
    user = random.Random(0).randrange(60_000, 65_000)
    shutil.copytree(PACKAGE, open_folder / "lib" / "partwise", ignore=shutil.ignore_patterns("__pycache__"))
    data, output, scratch = open_folder / "counts.npz", open_folder / "output", open_folder / "scratch"
    shutil.copyfile(counts, data)
    for folder in (output, scratch):
        folder.mkdir()
        os.chown(folder, user, user)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(open_folder / "lib"), "TMPDIR": str(scratch)}
    # May read everything, wherever this Python was installed, and write what the user may.
    reads = ["--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
    as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *reads]
    settings: dict = {"env": environment, "capture_output": True, "text": True, "timeout": 300, "check": False}
    asked = command("fit", data, "-k", 2, "--max-iter", 2, "-o")
    done = subprocess.run([*as_user, *asked, str(output / "m.partwise")], cwd=output, **settings)
    assert done.returncode == 0, done.stderr
    assert "Compiled kernels are kept in" in done.stderr
    assert partwise.load(output / "m.partwise").n_iter_ == 2
    refused = subprocess.run([*as_user, *asked, str(open_folder / "m.partwise")], cwd=output, **settings)
    assert refused.returncode == 1
    assert "no permission to write in" in refused.stderr.splitlines()[-1]


def test_kernels_cut_short(counts: Path, tmp_path: Path) -> None:
    """Every kept kernel is cut at a random place: it is compiled again, to the same bits."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    words = ["fit", counts, "-k", 2, "--max-iter", 2]
    assert run(*words, "-o", tmp_path / "a.partwise", env=environment).returncode == 0
    kernels = sorted((tmp_path / "kernels").rglob("*.kernel"))
    assert kernels
    dice = random.Random(0)
    for kernel in kernels:
        os.truncate(kernel, dice.randrange(kernel.stat().st_size))
    done = run(*words, "-o", tmp_path / "b.partwise", env=environment)
    assert done.returncode == 0, done.stderr
    assert "it is compiled again" in done.stderr
    first, second = (partwise.load(tmp_path / f"{name}.partwise") for name in "ab")
    np.testing.assert_array_equal(first.components_, second.components_)


def test_two_fits_write_one_model(counts: Path, tmp_path: Path) -> None:
    """Whoever ends last wins; the file is whole all the time."""
    model = tmp_path / "m.partwise"
    fits = [
        subprocess.Popen(command("fit", counts, "-o", model, "-k", k, "--max-iter", 5, "--checkpoint-every", 0))
        for k in (2, 3)
    ]
    while any(fit.poll() is None for fit in fits):
        if model.exists():
            partwise.load(model)
    assert [fit.returncode for fit in fits] == [0, 0]
    assert partwise.load(model).n_components_ in {2, 3}
    assert leftovers(tmp_path) == []


def test_two_comparisons_in_one_folder(counts: Path, tmp_path: Path) -> None:
    """Both give the same answer, and the folder is one that a third run reads."""
    words = ["compare", counts, "--models", "poisson", "--ranks", "1-3", "-o", tmp_path / "found", "--json"]
    both = [subprocess.Popen(command(*words), stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    third = run(*words)
    assert third.returncode == 0, third.stderr
    chosen = [line for line in third.stdout.splitlines() if '"rank"' in line]
    for answer in answers:
        assert [line for line in answer.splitlines() if '"rank"' in line] == chosen


def test_little_memory(tmp_path: Path) -> None:
    """Data that do not fit into the memory that the process may take: one sentence."""
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (6 * 10**9,) * 2); "
        "from partwise.cli.main import main; main()"
    )
    path = tmp_path / "counts.mtx"
    path.write_text("%%MatrixMarket matrix coordinate integer general\n200000 200000 1\n1 1 1\n")
    words = ["fit", str(path), "-o", str(tmp_path / "m.partwise"), "-k", "4000", "--max-iter", "1"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1, done.stderr[-500:]
    assert "memory" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "m.partwise").exists()
