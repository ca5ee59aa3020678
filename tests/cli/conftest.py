"""Small files to run commands on, and a runner that keeps standard output and standard error apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from partwise.cli.app import build
from partwise.datasets import simulate_binary, simulate_poisson
from partwise.io import write_matrix, write_table


class Command:
    """Runs ``partwise`` in this process."""

    def __init__(self) -> None:
        self._runner, self._app = CliRunner(), build()

    def __call__(self, *words: Any, code: int = 0) -> Any:
        """Run, check the exit code, and give back the result."""
        result = self._runner.invoke(self._app, [str(word) for word in words], prog_name="partwise")
        assert result.exit_code == code, f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
        return result

    def json(self, *words: Any, code: int = 0) -> dict[str, Any]:
        """Run with ``--json``, and parse all of standard output."""
        content = json.loads(self(*words, "--json", code=code).stdout)
        assert isinstance(content, dict)
        return content

    def fails(self, *words: Any) -> str:
        """Run what must fail: nothing on standard output, and one sentence on standard error, which is given back."""
        result = self(*words, code=1)
        assert result.stdout == ""
        beside = ("read ", "compiling kernels")  # the latter once per process, if nothing was compiled before
        lines = [line for line in result.stderr.splitlines() if not line.startswith(beside)]
        assert len(lines) == 1, lines
        assert lines[0].startswith("partwise: ")
        assert lines[0].endswith(".")
        return lines[0]

    def misused(self, *words: Any) -> str:
        """Run what must be refused as wrong usage: exit code 2, and the last line says why."""
        result = self(*words, code=2)
        assert result.stdout == ""
        return str(result.stderr.strip().splitlines()[-1])


@pytest.fixture
def partwise() -> Command:
    """The command."""
    return Command()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with the files that help texts speak of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PARTWISE_DEBUG", raising=False)
    table, _, dictionary = simulate_poisson(60, 30, 4, random_state=1)
    sp.save_npz("counts.npz", table.matrix)
    sp.save_npz("new_counts.npz", table.matrix[:20])
    Path("parts").mkdir()
    for number, rows in enumerate((slice(0, 30), slice(30, 60))):
        sp.save_npz(f"parts/{number}.npz", table.matrix[rows])
    write_matrix("catalogue.tsv", table.transpose())
    votes = simulate_binary(40, 12, 3, missing=0.1, random_state=1).table
    write_matrix("votes.csv", votes)
    parts = [f"SBS{k}" for k in range(1, 5)]
    write_table("signatures.tsv", dictionary, table.column_labels, parts)
    Path("batches.csv").write_text("".join(f"{name},batch{n % 2}\n" for n, name in enumerate(table.row_labels)))
    Path("articles").mkdir()
    for number in range(8):
        Path(f"articles/{number}.txt").write_text(f"feature 1 and feature{number} or feature1" * 2)
    Path("posts.csv").write_text("id,year,body\n" + "".join(f"{n},{2000 + n},word another\n" for n in range(4)))
    return tmp_path


@pytest.fixture
def counts(folder: Path) -> np.ndarray:
    """What counts.npz holds, dense."""
    array: np.ndarray = sp.load_npz("counts.npz").toarray()
    return array
