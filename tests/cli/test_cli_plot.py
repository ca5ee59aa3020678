"""`partwise plot`: from a table of votes with missing cells to pictures, by the command alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from partwise.cli.files import read_groups
from partwise.errors import PartwiseError
from partwise.io import write_table


@pytest.fixture
def votes(folder) -> str:
    """A model of votes, members x roll calls as such tables come, and a file of parties."""
    rng = np.random.default_rng(0)
    party = np.arange(12) % 2
    table = (rng.random((12, 40)) < np.where(party[:, None] == rng.integers(2, size=40), 0.9, 0.1)).astype(float)
    table[rng.random(table.shape) < 0.1] = np.nan
    names = [f"member {f}" for f in range(12)]
    write_table("votes.csv", table, names, [f"call {n}" for n in range(40)])
    lines = [f"{name},{('left', 'right')[own]}" for name, own in zip(names, party, strict=True)]
    Path("parties.csv").write_text("\n".join(["member,party", *lines, ""]))
    return "votes.partwise"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\xff\xfe", "cannot read groups.csv: line 1 is not UTF-8 text; save it as UTF-8."),
        (
            b'"' + b"x" * 200_000,
            "cannot read groups.csv: it is not valid CSV (field larger than field limit (131072)); give a line",
        ),
        (b"", "groups.csv has no group for feature 'a'"),
        (None, "there is no file groups.csv; check the name."),
    ],
)
def test_bad_groups(content, sentence, folder) -> None:
    path = Path("groups.csv")
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((PartwiseError, FileNotFoundError)) as raised:
        read_groups(path, ["a"], "feature")
    assert str(raised.value).startswith(sentence)


def test_groups_as_spreadsheets_write_them(folder) -> None:
    Path("groups.csv").write_text("a,left\r\nb,right\r\n", encoding="utf-8-sig")
    assert read_groups(Path("groups.csv"), ["b", "a"], "feature") == ["right", "left"]


def test_from_file_to_pictures(partwise, votes) -> None:
    settings = ["--set", "n_draws=20", "--set", "burn_in=100", "--set", "active_threshold=0.2", "-k", "8"]
    partwise("fit", "votes.csv", "--transpose", "--model", "binary", *settings, "-o", votes, "--parts", "parts.csv")
    content = partwise.json("plot", votes, "-o", "parts.png", "--groups", "parties.csv")
    assert content == {"command": "plot", "model": votes, "kind": "dictionary", "output": "parts.png", "warnings": []}
    for kind, name in (("features", "bars.svg"), ("trace", "fit.pdf")):
        partwise("plot", votes, "-o", name, "--kind", kind)
    assert all(Path(name).stat().st_size > 1000 for name in ("parts.png", "bars.svg", "fit.pdf"))
    partwise("transform", votes, "votes.csv", "--transpose", "-o", "calls.csv")
    # parts that hold next to nothing are not listed
    facts = partwise.json("info", votes)
    listed = [line for line in partwise("info", votes).stdout.splitlines() if line.startswith("part ")]
    assert 0 < len(listed) == facts["n_active_components"] < 8
    Path("parties.csv").write_text("member 0,left\n")
    sentence = partwise.fails("plot", votes, "-o", "other.png", "--groups", "parties.csv")
    assert "no group for feature 'member 1'" in sentence
    assert not Path("other.png").exists()
    assert "does not end in .png" in partwise.misused("plot", votes, "-o", "parts.docx")
