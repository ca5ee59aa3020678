"""Counts that go through temporary files: the file holds what Python gives, and memory does not grow with texts."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from partwise import count_texts, read
from partwise.cli.app import build
from partwise.text import counting, spilled
from partwise.text.counting import Wanted, counted
from partwise.text.documents import Columns

WORDS = [f"word{k}" for k in range(300)]


def write_jsonl(path: Path, n: int, length: int = 30) -> Path:
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for document in range(n):
            text = " ".join(rng.choice(WORDS, size=length)) + " \u2028 naïve"
            record = {"id": f"d{document}", "kind": "ab"[document % 2], "year": 2000 + document % 3, "body": text}
            file.write(json.dumps(record) + "\n")
    return path


@pytest.mark.parametrize("piece", [7, 2**24])
def test_command_and_python_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(counting, "_CHUNK", 1000)
    monkeypatch.setattr(spilled, "_BYTES", 4 * piece)
    monkeypatch.setattr(spilled, "_TEXTS", piece)
    source, target = write_jsonl(tmp_path / "t.jsonl", 50), tmp_path / "counts.npz"
    columns = {"text_column": "body", "id_column": "id", "group_column": "kind", "time_column": "year"}
    table = count_texts(source, **columns, min_df=4, keep_texts=True)
    options = [word for name, value in columns.items() for word in ("--" + name.replace("_", "-"), value)]
    ended = CliRunner().invoke(
        build(), ["count", str(source), "-o", str(target), *options, "--min-df", "4", "--keep-texts"]
    )
    assert ended.exit_code == 0, ended.output
    found = read(target)
    np.testing.assert_array_equal(found.matrix.toarray(), table.matrix.toarray())
    np.testing.assert_array_equal(sp.load_npz(target).toarray(), table.matrix.toarray())
    assert found.row_labels.tolist() == table.row_labels.tolist() == [f"d{k}" for k in range(50)]
    assert found.column_labels.tolist() == table.column_labels.tolist()
    assert {name: list(values) for name, values in found.metadata.items()} == {
        name: list(values) for name, values in table.metadata.items()
    }
    assert found.metadata["text"][3].endswith("\u2028 naïve")


def test_memory_does_not_grow_with_the_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_CHUNK", 2**14)
    monkeypatch.setattr(spilled, "_BYTES", 2**12)
    monkeypatch.setattr(spilled, "_TEXTS", 64)

    def peak(n: int) -> int:
        source = write_jsonl(tmp_path / "t.jsonl", n, length=200)
        tracemalloc.start()
        try:
            with counted(source, Columns("body", "id"), Wanted(), keep_texts=True) as found:
                found.write(tmp_path / "counts.npz")
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    small, large = peak(1000), peak(4000)
    # A document has 1,600 bytes of text and 150 counts of 8 bytes. Memory keeps where its texts and counts end.
    assert large - small < 3000 * 100
