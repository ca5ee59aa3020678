"""Results that are kept beside the pages of the papers: their pictures can be drawn again without the computation."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def drawing() -> ModuleType:
    """The script that keeps and draws."""
    spec = importlib.util.spec_from_file_location("draw_papers", DOCS / "images" / "draw_papers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["draw_papers"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("paper", sorted(path.parent.name for path in DOCS.glob("papers/*/results.json")))
def test_pictures_are_drawn_from_kept_results(paper: str, drawing: ModuleType, tmp_path: Path) -> None:
    image = pytest.importorskip("matplotlib.image")
    assert (DOCS / "papers" / paper / "results.json").stat().st_size < 300_000
    written = drawing.draw(paper, tmp_path)
    assert written
    page = (DOCS / "papers" / f"{paper}.md").read_text("utf-8")
    for picture in written:
        shown = DOCS / "papers" / paper / picture.name
        assert f"]({paper}/{picture.name})" in page
        # Letters and lines depend on the version of matplotlib, sizes do not.
        assert image.imread(picture).shape[:2] == image.imread(shown).shape[:2]


def test_what_pictures_need_is_kept(drawing: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "PAPERS", tmp_path)
    (tmp_path / "l2r").mkdir()
    steps = {
        "table 1, ap, 100 words": {"documents": 3},
        "ap, 200 enumerable documents, exact": [-3.0],
        "ap, 200 enumerable documents, smc, 10 draws, 10 times": {"divergence": [0.1], "error": [0.2], "bias": 0.3},
        "ap, mean length of enumerable documents": 9.5,
        "ap, 195 documents of all lengths, exact": [-3.0],
        "ap, 195 documents of all lengths, mean lengths": [2.5, 5.0],
        "ap, 195 documents of all lengths, L2R, S' = 1, 100 draws": [0.5, 0.25],
        "ap, 191 documents, completion": {"exact": [-4.123456789], "completion": [-4.5], "n_tokens": [2.0]},
        "kos, 100 documents, all words, auto": {"total": -10.0, "std_error": 0.1, "tokens": 5.0},
        "kos, 100 documents, all words, L2R, S' = 1, 10 draws, 10 times": [-11.0, -12.0],
    }
    results = {"steps": {name: {"result": result, "seconds": 1.0} for name, result in steps.items()}}
    (tmp_path / "results.json").write_text(json.dumps(results))
    drawing.keep("l2r", tmp_path)
    assert json.loads((tmp_path / "l2r" / "results.json").read_text()) == {
        "by_draws": {"ap": {"smc": {"10": {"divergence": [0.1], "error": [0.2]}}}},
        "lengths": {"ap": 9.5},
        "by_length": {"ap": {"n_draws": 100, "lengths": [2.5, 5], "errors": {"L2R, S' = 1": [0.5, 0.25]}}},
        "completion": {"ap": {"exact": [-4.12346], "completion": [-4.5], "n_tokens": [2]}},
        "figure3": {
            "kos": {
                "reference": {"total": -10, "std_error": 0.1, "tokens": 5},
                "totals": {"L2R, S' = 1": {"10": [-11, -12]}},
            }
        },
    }


def test_splits_of_figures_10_and_11_are_kept(drawing: ModuleType) -> None:
    pytest.importorskip("matplotlib")
    curves = [{"iteration": [1], "perplexity": [number]} for number in range(2)]
    steps: dict[str, Any] = {f"fig11, animals, bICA-5, split {number}": curve for number, curve in enumerate(curves)}
    for number in range(2):
        fits = {"bICA-5": {"perplexity": 0.5 + number, "seconds": 1.0}, "constant": {"perplexity": 0.7, "seconds": 0.0}}
        steps[f"fig10, variational, animals, split {number}"] = fits
    kept = drawing.keep_nbmf({**steps, "dir-dir, Beta-Dir, start vb": {}})
    assert kept == {
        "figure10": {"animals": {"bICA-5": [0.5, 1.5], "constant": [0.7, 0.7]}},
        "figure11": {"animals": {"bICA-5": curves}},
        "concentration": {},
    }
    assert set(drawing.draw_nbmf(kept)) == {"figure10_prediction", "figure11_convergence"}


def test_what_a_run_does_not_have_stays_kept(
    drawing: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "PAPERS", tmp_path)
    (tmp_path / "gap").mkdir()
    kept = tmp_path / "gap" / "results.json"
    kept.write_text(json.dumps({"figure4": {"mcem-c": [1]}}))
    seconds = [0.5 * number for number in range(1, 1001)]
    fit = {"seconds": seconds, "norms": [[number] for number in seconds], "chosen": [0, 700, 999], "cost": [3, 2, 1]}
    steps = {"scale 1: mcem-c": {"result": fit, "seconds": 1.0}}
    (tmp_path / "results.json").write_text(json.dumps({"steps": steps}))
    drawing.keep("gap", tmp_path)
    found = json.loads(kept.read_text())
    assert found["figure4"] == {"mcem-c": [1]}
    short = found["figures2_and_3"]["scale 1: mcem-c"]
    assert len(short["seconds"]) < 260
    assert [short["seconds"][at] for at in short["chosen"]] == [0.5, 350.5, 500]
