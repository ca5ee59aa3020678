"""``partwise count``: the command that it names next."""

from __future__ import annotations

from pathlib import Path


def test_it_names_the_next_command(partwise, folder) -> None:
    Path("texts.txt").write_text("feature1 feature2\nfeature2 feature3\n" * 3)
    assert "next: partwise fit words.npz -o topics.partwise" in partwise("count", "texts.txt", "-o", "words.npz").stderr
    partwise("fit", "words.npz", "-o", "m.partwise", "-k", 1)
    result = partwise("count", "texts.txt", "-o", "new.npz", "--vocabulary", "m.partwise")
    assert "next: partwise transform m.partwise new.npz -o activations.csv" in result.stderr
