"""``python -m benchmarks [NAME ...] [-o RESULTS]``: run benchmarks and write RESULTS.md and RESULTS.json."""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness.environment import ONE_THREAD, OthersUse, describe
from benchmarks.harness.processes import ROOT
from benchmarks.harness.table import markdown


def available() -> dict[str, str]:
    """Names and titles of the benchmarks: the files of the folder ``suite``."""
    files = sorted((ROOT / "benchmarks" / "suite").glob("[!_]*.py"))
    return {file.stem: _title(file) for file in files}


def _title(file: Path) -> str:
    """The first line of the docstring; the file is not run."""
    text = ast.get_docstring(ast.parse(file.read_text())) or file.stem
    return text.splitlines()[0].rstrip(".")


def run_benchmark(name: str, title: str, repeats: int) -> dict[str, Any]:
    """Run one benchmark in a process of its own, with an empty cache of kernels and one thread."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines.jsonl"
        path.touch()
        environment = {**os.environ, **ONE_THREAD, "NUMBA_CACHE_DIR": str(Path(folder) / "cache")}
        command = [sys.executable, "-m", "benchmarks.worker", name, str(repeats), str(path)]
        began = time.perf_counter()
        with OthersUse() as others:
            done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {
        "name": name,
        "title": title,
        "lines": lines,
        "failed": done.returncode != 0,
        "seconds": time.perf_counter() - began,
        "others_cores": others.cores,
    }


def main() -> int:
    """Run what is asked for; the table is written anew after each benchmark, so that nothing is lost."""
    titles = available()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of: {', '.join(titles)}; default: all")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "out" / "benchmarks", metavar="RESULTS")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each figure (default: 5)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in titles]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}: choose from {', '.join(titles)}")
    environment = {**describe(), "repeats": arguments.repeats}
    output: Path = arguments.output
    output.parent.mkdir(parents=True, exist_ok=True)
    results: list[dict[str, Any]] = []
    for name in arguments.names or titles:
        print(f"{name}: {titles[name]}", file=sys.stderr, flush=True)
        results.append(run_benchmark(name, titles[name], arguments.repeats))
        stored = {"environment": environment, "benchmarks": results}
        output.with_suffix(".json").write_text(json.dumps(stored, indent=1) + "\n")
        output.with_suffix(".md").write_text(markdown(environment, results))
    print(markdown(environment, results))
    return int(any(result["failed"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
