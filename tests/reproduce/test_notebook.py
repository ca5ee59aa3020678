"""The notebook of a reproduction: steps are kept, versions do not mix, nothing is lost or taken for something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partwise.errors import InvalidInputError
from partwise.plotting.figures import new_figure
from partwise.reproduce._notebook import Notebook


def _fails(*unused: object) -> Any:
    raise RuntimeError("computed again")


def test_goes_on_after_a_failure_where_it_was(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path, quick=True)
    first = notebook.step("first", lambda: {"values": np.arange(3), "size": np.float64(2.5), 7: (1, None)})
    with pytest.raises(RuntimeError):
        notebook.step("second", _fails)
    later = Notebook(tmp_path, quick=True)
    assert later.step("first", _fails) == first == {"values": [0, 1, 2], "size": 2.5, "7": [1, None]}
    assert later.step("second", lambda: 2) == 2
    assert later.seconds("second") >= 0.0


def test_a_result_read_again_equals_the_one_computed(tmp_path: Path) -> None:
    values = {"exact": 0.1 + 0.2, "never": np.inf, "unknown": [np.nan]}
    computed = Notebook(tmp_path, quick=False).step("values", lambda: values)
    assert computed == Notebook(tmp_path, quick=False).step("values", _fails)
    assert float(computed["never"]) == np.inf
    assert np.isnan(float(computed["unknown"][0]))


def test_quick_and_full_do_not_mix(tmp_path: Path) -> None:
    Notebook(tmp_path, quick=True).step("first", lambda: 1)
    with pytest.raises(InvalidInputError, match=r"results of another kind \(quick, .*another folder"):
        Notebook(tmp_path, quick=False)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"quick": true}', '{"quick": true, "version": "1", "steps": 3}'])
def test_a_foreign_file_is_not_overwritten(tmp_path: Path, content: str) -> None:
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(InvalidInputError, match="not a file of results"):
        Notebook(tmp_path, quick=True)
    assert (tmp_path / "results.json").read_text() == content


def test_figures_and_report(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path / "new", quick=True)
    notebook.section("Table 1", "| a |\n")
    notebook.figure("parts", new_figure(1, 1))
    notebook.figure("parts", new_figure(1, 1))
    notebook.section("Table 2", "| b |\n")
    notebook.section("Table 1", "| c |\n")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["parts.pdf", "parts.png", "report.md"]
    head, *lines = (tmp_path / "new" / "report.md").read_text().splitlines()
    assert head.startswith("# new: quick, version ")
    written = [line for line in lines if line]
    assert written == ["## Table 1", "| c |", "## Table 2", "| b |", "## Figures", "![parts](parts.png)"]


def test_results_are_plain_json(tmp_path: Path) -> None:
    Notebook(tmp_path, quick=True).step("first", lambda: float("nan"))
    kept = json.loads((tmp_path / "results.json").read_text(), parse_constant=_fails)
    assert kept["steps"]["first"]["result"] == "nan"
