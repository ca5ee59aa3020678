"""Measurements in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    seconds: float
    failed: bool
    output: str
    messages: str


def run_command(
    command: Sequence[str], *, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> Ended:
    """Run a command to its end, on a clock."""
    began = time.perf_counter()
    done = subprocess.run(
        command, env={**os.environ, **(environment or {})}, cwd=folder, capture_output=True, text=True, check=False
    )
    return Ended(time.perf_counter() - began, done.returncode != 0, done.stdout, done.stderr)


def run_module(module: str, *arguments: str) -> Any:
    """What a module of ours prints as JSON."""
    ended = run_command([sys.executable, "-m", module, *arguments], folder=ROOT)
    if ended.failed:
        raise RuntimeError(f"{module} failed: {last_line(ended.messages)}")
    return json.loads(ended.output)


def last_line(text: str) -> str:
    """The last line that says something: of a traceback, the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"
