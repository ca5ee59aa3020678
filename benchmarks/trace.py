"""How many rooms does a job go through? Count distinct functions and files of partwise on a path.

``python -m benchmarks.trace`` runs three jobs on small data, each in a process of its own with warm kernels, and prints
how many functions and files of partwise they enter. Kernels that Python calls count, and so do lambdas; comprehensions
do not, which are functions in some versions of Python only.
``python -m benchmarks.trace --list JOB`` prints the functions of one job by file.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

GOALS = {"fit": (150, 35), "command": (320, 75), "compare": (250, 50)}
"""Most functions and files of each job."""

_NO_FUNCTIONS = {"<module>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"}

_TITLES = {
    "fit": "GammaPoissonNMF.fit",
    "command": "partwise fit --model gamma-poisson",
    "compare": "partwise.selection.compare",
}


def _job(name: str, folder: Path) -> Any:
    """A function that does the job, with everything imported that it needs from outside."""
    import numpy as np

    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(1.0, 10.0, size=(60, 3)) @ rng.dirichlet(np.full(12, 0.3), size=3))
    if name == "fit":
        from partwise import GammaPoissonNMF

        return lambda: GammaPoissonNMF(4, random_state=0, progress=False).fit(X)
    if name == "command":
        from partwise.cli.main import main

        data, model = str(folder / "counts.npz"), str(folder / "m.partwise")
        np.savez(data, X=X)
        sys.argv = ["partwise", "fit", data, "-o", model, "--model", "gamma-poisson", "-k", "4", "--seed", "0"]
        return main
    from partwise.selection import compare

    return lambda: compare(X, models=["poisson", "gamma-poisson"], ranks=[1, 3], random_state=0, n_restarts=2)


def trace(name: str) -> dict[str, set[str]]:
    """Names of the functions that a job enters, by file."""
    import partwise

    root = str(Path(partwise.__file__).parent)
    seen: dict[str, set[str]] = defaultdict(set)

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root) and code.co_name not in _NO_FUNCTIONS:
            seen[code.co_filename[len(root) + 1 :]].add(code.co_qualname)

    with tempfile.TemporaryDirectory() as folder:
        job = _job(name, Path(folder))
        with contextlib.suppress(SystemExit):
            job()  # kernels are compiled, modules imported
        threading.setprofile(note)
        sys.setprofile(note)
        with contextlib.suppress(SystemExit):
            job()
        sys.setprofile(None)
        threading.setprofile(None)
    return seen


def main(words: list[str]) -> None:
    """Print a line per job, or the functions of one."""
    if words[:1] == ["--one"]:
        found = trace(words[1])
        sys.stdout.write(f"{sum(map(len, found.values()))} {len(found)}\n")
        return
    if words[:1] == ["--list"]:
        for file, names in sorted(trace(words[1]).items()):
            print(f"{file}: {', '.join(sorted(names))}")
        return
    for name, (functions, files) in GOALS.items():
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.trace", "--one", name],
            capture_output=True,
            text=True,
            check=True,
        )
        own_functions, own_files = map(int, done.stdout.split()[-2:])
        reached = own_functions <= functions and own_files <= files
        print(
            f"{_TITLES[name]}: {own_functions} functions in {own_files} files (goal {functions} in {files}):"
            f" {'reached' if reached else 'not reached'}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
