"""What the tests of faults share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "partwise", *map(str, words)]


def run(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    settings: dict = {"capture_output": True, "text": True, "timeout": 300, "check": False, **options}
    return subprocess.run(command(*words), **settings)


def leftovers(folder: Path) -> list[str]:
    """Temporary files that were not removed."""
    return [path.name for path in folder.rglob("*") if "partwise-" in path.name]
