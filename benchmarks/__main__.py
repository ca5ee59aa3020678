"""``python -m benchmarks [NAME ...] [-o RESULTS] [--keep]``: run benchmarks and write RESULTS.md and RESULTS.json."""

from __future__ import annotations

import argparse
import contextlib
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
from benchmarks.kept import keep
from benchmarks.kept import main as write_pages
from benchmarks.suite import available


def run_benchmark(
    name: str, title: str, repeats: int, only: str = "", skip: str = "", minutes: float | None = None
) -> dict[str, Any]:
    """Run one benchmark in a process of its own, with an empty cache of kernels and one thread."""
    about = describe()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines.jsonl"
        path.touch()
        environment = {**os.environ, **ONE_THREAD, "NUMBA_CACHE_DIR": str(Path(folder) / "cache")}
        command = [sys.executable, "-m", "benchmarks.worker", name, str(repeats), str(path), only, skip]
        began = time.perf_counter()
        most, failed = None if minutes is None else 60.0 * minutes, True
        with OthersUse() as others, contextlib.suppress(subprocess.TimeoutExpired):
            failed = subprocess.run(command, cwd=ROOT, env=environment, check=False, timeout=most).returncode != 0
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {
        "name": name,
        "title": title,
        "only": only,
        "environment": {**about, "repeats": repeats},
        "lines": lines,
        "failed": failed,
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
    parser.add_argument(
        "--keep", action="store_true", help="keep the results in benchmarks/results and write its pages anew"
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="LINES",
        help="regular expression of the lines to measure; the others are kept",
    )
    parser.add_argument(
        "--skip", default="", metavar="REASON", help="with --only: keep that lines were not measured, and why"
    )
    parser.add_argument(
        "--minutes", type=float, help="end a benchmark after this time; with --only, the lines measured so far are kept"
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in titles]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}: choose from {', '.join(titles)}")
    output: Path = arguments.output
    output.parent.mkdir(parents=True, exist_ok=True)
    results: list[dict[str, Any]] = []
    for name in arguments.names or titles:
        print(f"{name}: {titles[name]}", file=sys.stderr, flush=True)
        how = arguments.repeats, arguments.only, arguments.skip, arguments.minutes
        results.append(run_benchmark(name, titles[name], *how))
        output.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
        output.with_suffix(".md").write_text(markdown(results))
        if arguments.keep and (arguments.only or not results[-1]["failed"]):
            keep(results[-1])
            write_pages()
    print(markdown(results))
    return int(any(result["failed"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
