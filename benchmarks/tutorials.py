"""How long does a new user wait? Installs partwise and follows the tutorials.

``python -m benchmarks.tutorials [--keep]`` builds the wheel, installs it into an empty environment with an empty home
folder, and does what the pages say, one page after the other. So kernels are compiled at first use, and later pages use
those of earlier ones. ``--keep`` writes the table to benchmarks/results/tutorials.md.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness.environment import OthersUse, describe
from benchmarks.harness.processes import ROOT

# Pages, what they are about, and the extra that each installs first.
PAGES = (
    ("tutorials/text", "112 help texts, 8 topics", ""),
    ("tutorials/votes", "36 countries x 200 roll calls", ""),
    ("tutorials/plays", "286 listeners x 74 songs", ""),
    ("tutorials/signatures", "20 tumours, 4 signatures", ""),
    ("tutorials/cells", "400 cells x 200 genes, 6 programmes", "anndata"),
    ("tutorials/quickstart", "", ""),
    ("README", "with the 112 help texts as articles", ""),
)
RESULT = ROOT / "benchmarks" / "results" / "tutorials.md"
_READER = runpy.run_path(str(ROOT / "tests" / "reader.py"), run_name="reader")


def steps(page: Path) -> list[tuple[str, Any]]:
    """The Python code and the commands of a page, in order."""
    found: list[tuple[str, Any]] = []
    for block in _READER["blocks"](page, "python", "console"):
        if block.language == "python":
            found.append(("python", block.code))
        else:
            found += [("partwise", words[1:]) for words in _READER["commands"](block)]
    return found


def install(python: Path, wheel: Path, extra: str, environment: dict[str, str]) -> tuple[float, float]:
    """Seconds and processor seconds of pip."""
    before, began = os.times(), time.perf_counter()
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}[{extra}]"]
    subprocess.run(command, check=True, env=environment)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, used


def follow(page: Path, folder: Path, python: Path, environment: dict[str, str]) -> list[tuple[str, float, float]]:
    """Label, seconds and processor seconds of each step of a page."""
    folder.mkdir()
    if page.name == "README.md":
        _READER["write_reader_files"](folder)
        shutil.rmtree(folder / "articles")
        shutil.copytree(folder.parent / "text" / "help", folder / "articles")
    listed = folder.with_suffix(".json")
    listed.write_text(json.dumps(steps(page)), "utf-8")
    command = [str(python), str(ROOT / "benchmarks" / "harness" / "follow_page.py"), str(listed)]
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return [(str(label), float(seconds), float(used)) for label, seconds, used in found]


def main() -> int:
    """Walk through all pages and print the table."""
    about = describe()
    rows = ["| step | seconds | CPU seconds | slowest step |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as name, OthersUse() as others:
        folder = Path(name)
        home = folder / "home"
        home.mkdir()
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "MPLBACKEND": "Agg"}
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", name], cwd=ROOT, check=True, stdout=2
        )
        subprocess.run([sys.executable, "-m", "venv", folder / "empty"], check=True)
        (wheel,), python = folder.glob("*.whl"), folder / "empty" / "bin" / "python"
        seconds, used = install(python, wheel, "plot", environment)
        rows.append(f"| `pip install` with the extra `plot` | {seconds:.0f} | {used:.0f} | |")
        for page, about_data, extra in PAGES:
            if extra:
                seconds, used = install(python, wheel, extra, environment)
                rows.append(f"| `pip install` with the extra `{extra}` | {seconds:.0f} | {used:.0f} | |")
            path = ROOT / "README.md" if page == "README" else ROOT / "docs" / f"{page}.md"
            found = follow(path, folder / Path(page).name, python, environment)
            slowest = max(found, key=lambda step: step[1])
            shown = "README" if page == "README" else f"[{path.stem}](../{page}.md)"
            told = f"{shown}: {about_data}" if about_data else shown
            rows.append(
                f"| {told} | {sum(step[1] for step in found):.0f} | {sum(step[2] for step in found):.0f} |"
                f" `{slowest[0]}`, {slowest[1]:.0f} s |"
            )
            print(rows[-1], file=sys.stderr)
    busy = "" if others.cores is None else f" Others used {others.cores:.2f} cores meanwhile."
    told = f"`python -m benchmarks.tutorials`, {about['date']}, commit {about['commit']}, {about['cores']} cores.{busy}"
    text = "\n".join([*rows, "", told]) + "\n"
    print(text)
    if "--keep" in sys.argv[1:]:
        RESULT.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
