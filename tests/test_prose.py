"""README, pages and messages are in plain words: short sentences, and one name for one thing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    """The script of the docs build."""
    spec = importlib.util.spec_from_file_location("prose", ROOT / "docs" / "prose.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["prose"] = module
    spec.loader.exec_module(module)
    return module


def test_nothing_to_mend(prose: ModuleType) -> None:
    assert prose.check() == []


def test_sentences_are_found(prose: ModuleType) -> None:
    found = prose.groups()
    read = next(one.text for one in found["docstrings"] if "Whether branches of the tree" in one.text)
    assert read.endswith("(Bar-Joseph, Gifford & Jaakkola 2001).")
    assert all(len(sentences) > 400 for sentences in found.values())
    page = " ".join(one.text for one in found["guides"])
    assert "CODE" in page
    assert "import numpy" not in page
    assert "---" not in page


@pytest.mark.parametrize(
    "text",
    [
        "Prints a line a fit.",
        "It scores 0.3 nats a token.",
        "Two threads give the same bits.",
        "It knows missing entries.",
        "Kernels are compiled anew.",
        "On-line inference needs one pass.",
        "A model with ten components.",
        "Component 3 is empty.",
        "It chose the rank.",
        "One line per row and rank.",
        "word " * 36 + ".",
    ],
)
def test_faults_are_seen(prose: ModuleType, text: str) -> None:
    assert prose.faults(list(prose.sentences(text, "here")))


def test_plain_words_pass(prose: ModuleType) -> None:
    text = "Prints one line per fit. A model needs a table at a time, e.g. counts. It draws a picture (Fig. 2)."
    found = list(prose.sentences(text, "here"))
    assert [one.n_words for one in found] == [5, 10, 6]
    assert prose.faults(found) == []


def test_names_and_papers_keep_their_words(prose: ModuleType) -> None:
    text = (
        "Drop --components-file, or give a model its components_. Principal components differ. ranks must be numbers."
    )
    assert prose.faults(list(prose.sentences(text, "here"))) == []
    assert prose.faults(list(prose.sentences("A matrix of rank 1.", "here"))) == []
    for place in ("src/partwise/reproduce/gap/surplus.py:3", "src/partwise/priors/grid.py:1"):
        assert prose.faults(list(prose.sentences("Two components.", place))) == []
        assert prose.faults(list(prose.sentences("Two holes.", place)))


def test_words_of_reports_are_read(prose: ModuleType) -> None:
    said = [one.text for one in prose.groups()["messages"] if "reporting/assets" in one.place]
    assert "Parts that share features are close." in said
    assert "Crosses mark values that the model is unlikely to produce." in said
    assert not any("querySelector" in one or "=>" in one for one in said)


def test_messages_are_read(prose: ModuleType) -> None:
    module = ROOT / "src" / "partwise" / "core" / "run.py"
    assert any("Did not converge X" in one.text for one in prose.of_source(module))
