"""The allocation paper: parts of its reproduction in seconds, the whole short version marked slow."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from partwise.allocation import AllocationModel
from partwise.core.keys import Key
from partwise.reproduce import find
from partwise.reproduce.allocation import figure1, table1
from partwise.reproduce.allocation._relaxed import unrestricted


def test_best_decomposition_gains_on_every_matrix() -> None:
    runs = [table1.trajectory(seed) for seed in range(3)]
    for run in runs:
        assert run["least_change"][0] >= 0.0
        assert np.diff(run["log_p"]).min() >= 0.0
        assert run["log_p"][-1] > run["log_p"][0] + 1.0


def test_unrestricted_relaxation_is_at_least_the_restricted_one() -> None:
    decomposition, relaxed, whole = table1.bounds(0)
    # Log p(S) of one S by tables and by SciPy: they may differ by 7e-11 for each of 160 entries.
    assert relaxed >= decomposition - 160 * 7e-11
    assert np.isfinite(whole)


def test_unrestricted_relaxation_stays_on_the_data() -> None:
    model = AllocationModel(3, 2, 1.0, 1.0, 5.0, 1.0)
    s = model.simulate(Key(0), 4).allocations + 0.5
    assert unrestricted(model, s) >= model.log_allocation(s)


def test_recovered_parts_are_counted() -> None:
    parts = figure1.swimmer().parts.astype(float)
    assert figure1.recovered(parts) == 17
    assert figure1.recovered(parts[:5]) == 5
    assert figure1.recovered(np.ones((17, 1024))) == 0


@pytest.mark.slow
def test_short_version(tmp_path: Path) -> None:
    find("allocation").run(tmp_path, True)
    written = {file.name for file in tmp_path.iterdir()}
    assert {"report.md", "table1_gain.png", "figure1_bld.pdf", "results.json"} <= written
    steps = json.loads((tmp_path / "results.json").read_text())["steps"]
    assert steps["figure 1, bld"]["result"]["recovered"] >= 14
