"""One benchmark in this process: ``benchmarks.worker NAME REPEATS FILE ONLY SKIP`` writes its lines as they come."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.harness.line import Settings


def main(name: str, repeats: int, path: Path, only: str, skip: str) -> None:
    """Write one line of JSON for each line of the table."""
    benchmark = import_module(f"benchmarks.suite.{name}")
    with path.open("a") as file:
        settings = Settings(repeats, only, skip)
        for line in benchmark.measure(settings):
            if not settings.wants(line.what, line.data):
                continue
            file.write(json.dumps(line.to_json()) + "\n")
            file.flush()
            print(f"  {line.what}, {line.data}: {line.summary}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
