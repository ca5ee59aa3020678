"""`partwise report`: the page of a model, by the command alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import partwise as library
from partwise.io import read


@pytest.fixture
def topics(partwise, folder) -> str:
    partwise("fit", "catalogue.tsv", "--transpose", "-o", "topics.partwise", "-k", "3")
    return "topics.partwise"


def test_command_and_library_write_the_same_page(partwise, topics) -> None:
    content = partwise.json("report", topics, "catalogue.tsv", "--transpose", "-o", "report.html", "--seed", "3")
    page = Path("report.html").read_text(encoding="utf-8")
    assert content == {
        "command": "report",
        "model": topics,
        "data": "catalogue.tsv",
        "output": "report.html",
        "bytes": len(page.encode()),
        "warnings": [],
    }
    table = read("catalogue.tsv", transpose=True)
    assert page == library.report(library.load(topics), table, title="topics", random_state=3)


def test_groups_of_samples(partwise, topics) -> None:
    labels = read("catalogue.tsv", transpose=True).row_labels
    lines = [f"{label},{'odd' if n % 2 else 'even'}" for n, label in enumerate(labels)]
    Path("groups.csv").write_text("\n".join(lines))
    words = ["catalogue.tsv", "--transpose", "--groups", "groups.csv"]
    partwise("report", topics, *words, "-o", "report.html", "--title", "Odd and even")
    assert '["even","odd"]' in Path("report.html").read_text(encoding="utf-8")
    partwise("plot", topics, *words, "-o", "structure.png", "--kind", "structure")
    Path("groups.csv").write_text("\n".join(lines[1:]))
    assert f"no group for sample {str(labels[0])!r}" in partwise.fails("report", topics, *words, "-o", "other.html")
    assert not Path("other.html").exists()


def test_wrong_usage_is_refused(partwise, topics) -> None:
    assert "does not end in .html" in partwise.misused("report", topics, "-o", "report.pdf")
    assert "give DATA" in partwise.misused("report", topics, "-o", "r.html", "--groups", "groups.csv")
    assert "HEIGHTxWIDTH" in partwise.misused("report", topics, "-o", "r.html", "--image-shape", "8")
    assert "48 pixels" in partwise.fails("report", topics, "-o", "r.html", "--image-shape", "6x8")


def test_all_kinds_of_pictures(partwise, topics) -> None:
    for kind in ("checks", "reconstruction", "structure"):
        partwise("plot", topics, "catalogue.tsv", "--transpose", "-o", f"{kind}.png", "--kind", kind)
        assert Path(f"{kind}.png").stat().st_size > 1000
        assert "give DATA" in partwise.misused("plot", topics, "-o", "p.png", "--kind", kind)
    partwise("plot", topics, "-o", "images.png", "--kind", "images", "--image-shape", "5x6")
    assert "height and width" in partwise.misused("plot", topics, "-o", "p.png", "--kind", "images")
    assert "drop DATA" in partwise.misused(
        "plot", topics, "catalogue.tsv", "--transpose", "-o", "p.png", "--kind", "norms"
    )
    assert "has no column norms" in partwise.fails("plot", topics, "-o", "p.png", "--kind", "norms")
    assert "not of the form" in partwise.fails("plot", topics, "-o", "p.png", "--kind", "signatures")
