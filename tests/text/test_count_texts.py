"""Counting texts: the same numbers as scikit-learn, from every source, with names and metadata, at any size."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from partwise import Table, as_table, count_texts, read
from partwise.errors import FileFormatError, IgnoredWordsWarning, InvalidInputError
from partwise.io import write_matrix
from partwise.text import counting

WORDS = ["tax", "budget", "vote", "law", "cell", "gene", "protein", "blood", "goal", "match", "the", "of", "and", "in"]


def texts(n: int = 60, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size=rng.integers(1, 40))).capitalize() + "." for _ in range(n)]


@pytest.mark.parametrize(
    "options",
    [
        {"min_df": 1},
        {"min_df": 3, "max_df": 0.72},
        {"min_df": 0.2, "stop_words": "english"},
        {"max_features": 5, "min_df": 1},
        {"ngrams": (1, 2), "min_df": 4},
        {"token_pattern": r"\w", "min_df": 1},
        {"vocabulary": ["vote", "gene", "nowhere"]},
    ],
)
@pytest.mark.parametrize("chunk", [40, 2**23])
@pytest.mark.filterwarnings("ignore::partwise.errors.IgnoredWordsWarning")
def test_counts_are_those_of_scikit_learn(options: dict, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_CHUNK", chunk)
    table = count_texts(texts(), **options)
    theirs = dict(options)
    if "ngrams" in theirs:
        theirs["ngram_range"] = theirs.pop("ngrams")
    if "vocabulary" not in theirs:
        theirs.setdefault("min_df", 2)
    vectorizer = CountVectorizer(**theirs)
    expected = vectorizer.fit_transform(texts()).toarray()
    assert table.column_labels.tolist() == vectorizer.get_feature_names_out().tolist()
    np.testing.assert_array_equal(table.matrix.toarray(), expected)
    assert table.matrix.has_canonical_format


def sources(folder: Path) -> dict[str, tuple[object, dict]]:
    """The same three documents in every form."""
    documents = [("a", "x", "2001", "cats, and dogs"), ("b", "y", "2002", 'dogs\n"cats" dogs'), ("c", "x", "2003", "")]
    names = ("name", "kind", "year", "body")
    columns = dict(zip(("id_column", "group_column", "time_column", "text_column"), names, strict=True))
    records = [dict(zip(names, row, strict=True)) for row in documents]
    found: dict[str, tuple[object, dict]] = {}
    for suffix, delimiter in ((".csv", ","), (".tsv", "\t")):
        with (folder / f"texts{suffix}").open("w", newline="") as file:
            writer = csv.writer(file, delimiter=delimiter)
            writer.writerows([names, *documents])
        found[suffix] = folder / f"texts{suffix}", columns
    (folder / "texts.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "texts.jsonl.gz").write_bytes(gzip.compress((folder / "texts.jsonl").read_bytes()))
    import pandas as pd

    frame = pd.DataFrame(records)
    frame.to_parquet(folder / "texts.parquet")
    for name in ("jsonl", "jsonl.gz", "parquet"):
        found[name] = folder / f"texts.{name}", columns
    found["frame"] = frame, columns
    for name, group, _, text in documents:
        (folder / "docs" / group).mkdir(parents=True, exist_ok=True)
        (folder / "docs" / group / f"{name}.txt").write_text(text)
    found["folder"] = folder / "docs", {}
    found["list"] = [text for *_, text in documents], {}
    (folder / "lines.txt").write_text("".join(text.replace("\n", " ") + "\n" for *_, text in documents))
    found["lines"] = folder / "lines.txt", {}
    return found


def test_every_source_gives_the_same_counts(tmp_path: Path) -> None:
    for kind, (source, options) in sources(tmp_path).items():
        table = count_texts(source, min_df=1, stop_words=["and"], keep_texts=True, **options)
        order = np.argsort([name[-1] for name in table.row_labels])
        assert table.column_labels.tolist() == ["cats", "dogs"], kind
        assert table.matrix.toarray()[order].tolist() == [[1, 1], [1, 2], [0, 0]], kind
        assert table.metadata["text"][order][0] == "cats, and dogs" + ("\n" if kind == "lines" else ""), kind
        if options:
            assert table.row_labels.tolist() == ["a", "b", "c"]
            assert table.metadata["time"].tolist() == ["2001", "2002", "2003"]
            assert table.metadata["group"].tolist() == ["x", "y", "x"]
    folder = count_texts(tmp_path / "docs", min_df=1)
    assert folder.row_labels.tolist() == ["x/a", "x/c", "y/b"]
    assert folder.metadata["group"].tolist() == ["x", "x", "y"]


def test_metadata_survive_splitting_saving_and_loading(tmp_path: Path) -> None:
    from sklearn.model_selection import train_test_split

    long = "long \u2028 text " * 1000
    table = count_texts(texts(20), min_df=1, keep_texts=True).with_metadata(
        group=["g", "h"] * 10, note=[long, *"b" * 19]
    )
    write_matrix(tmp_path / "counts.npz", table)
    back = read(tmp_path / "counts.npz")
    assert {name: values.tolist() for name, values in back.metadata.items()} == {
        name: values.tolist() for name, values in table.metadata.items()
    }
    assert back.column_labels.tolist() == table.column_labels.tolist()
    train, test = train_test_split(back, test_size=5, random_state=0)
    assert isinstance(train, Table)
    for part in (train, test):
        whole = {name: at for at, name in enumerate(table.row_labels)}
        rows = [whole[name] for name in part.row_labels]
        np.testing.assert_array_equal(part.matrix.toarray(), table.matrix.toarray()[rows])
        assert part.metadata["text"].tolist() == table.metadata["text"][rows].tolist()
        assert as_table(part).metadata["group"].tolist() == table.metadata["group"][rows].tolist()
    some = table[:3, [2, 0]]
    assert some.shape == (3, 2)
    assert some.column_labels.tolist() == table.column_labels[[2, 0]].tolist()
    assert table[np.arange(20) < 2].metadata["group"].tolist() == ["g", "h"]
    with pytest.raises(InvalidInputError, match="time has 2 values for 20 samples"):
        table.with_metadata(time=[1, 2])


def test_damaged_metadata_are_refused(tmp_path: Path) -> None:
    table = count_texts(texts(4), min_df=1, keep_texts=True)
    write_matrix(tmp_path / "counts.npz", table)
    with np.load(tmp_path / "counts.npz") as stored:
        arrays = dict(stored)
    for change, words in (
        ({"metadata/text.ends": arrays["metadata/text.ends"][:-1]}, "do not end where it says"),
        ({"metadata/text.ends": arrays["metadata/text.ends"][::-1].copy()}, "do not end where it says"),
        ({"metadata/text": arrays["metadata/text"].astype(np.int64)}, "does not hold texts"),
    ):
        np.savez(tmp_path / "bad.npz", **{**arrays, **change})
        with pytest.raises(FileFormatError, match=words):
            read(tmp_path / "bad.npz")
    del arrays["metadata/text.ends"]
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(FileFormatError, match="lacks the ends"):
        read(tmp_path / "bad.npz")


def test_new_words_are_ignored_in_one_line() -> None:
    with pytest.warns(IgnoredWordsWarning, match="3 of 5 tokens were ignored: their 2 words are not in the voc"):
        table = count_texts(["gene vote whale", "whale ship"], vocabulary=["vote", "gene"])
    assert table.matrix.toarray().tolist() == [[1, 1], [0, 0]]


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        (["one", "two"], {}, "none of the 2 words of 2 documents is left"),
        ([], {}, "no documents"),
        (["a b", 3], {}, "text 2 is a int"),
        ("a text that somebody passed instead of a list", {}, "source is a text itself"),
        (["a"], {"text_column": "body"}, "text_column= is for tables"),
        (["word word"], {"token_pattern": "("}, "token_pattern= cannot be used"),
        (["word word"], {"ngrams": (2, 1)}, "token_pattern= cannot be used"),
        (["word word"], {"min_df": 1.5}, "min_df=1.5 must be 1 or more documents"),
        (["word", "word"], {"max_df": 1}, "max_df=1 leaves out what min_df=2 keeps"),
        (["word", "word"], {"min_df": 3}, "no word is in 3 documents, as there are only 2: lower min_df="),
        (["word"], {"stop_words": "german"}, "stop_words='german' is neither 'english' nor a file"),
        (3, {}, "source is a int"),
    ],
)
def test_bad_sources_get_a_sentence(source: object, options: dict, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        count_texts(source, **options)


def test_bad_files_get_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes("fine\ncaf\xe9".encode("latin-1"))
    folder = tmp_path / "texts"
    folder.mkdir()
    with pytest.raises(InvalidInputError, match=r"holds no \.txt files"):
        count_texts(folder)
    (folder / "a.txt").write_bytes("fine\ncaf\xe9".encode("latin-1"))
    with pytest.raises(FileFormatError, match=r"a\.txt: line 2 is not UTF-8 text; say which encoding"):
        count_texts(folder)
    assert count_texts(folder, encoding="latin-1", min_df=1).column_labels.tolist() == ["café", "fine"]
    with pytest.raises(FileFormatError, match="line 2 is not UTF-8"):
        count_texts(tmp_path / "latin.txt")
    table = tmp_path / "t.csv"
    table.write_text("id,body\n1,word\n2\n")
    with pytest.raises(InvalidInputError, match=r"say which column of .* holds the text with text_column=: id, body"):
        count_texts(table)
    with pytest.raises(InvalidInputError, match="has no column 'text'"):
        count_texts(table, text_column="text")
    with pytest.raises(FileFormatError, match="line 3 has 1 cells where the first has 2"):
        count_texts(table, text_column="body")
    (tmp_path / "t.jsonl").write_text('{"body": "a word"}\n{"text": 1}\n')
    with pytest.raises(FileFormatError, match="line 2 has no 'body'"):
        count_texts(tmp_path / "t.jsonl", text_column="body")
    (tmp_path / "t.pdf").write_bytes(b"x")
    with pytest.raises(InvalidInputError, match="not text that can be counted"):
        count_texts(tmp_path / "t.pdf")
    with pytest.raises(FileNotFoundError):
        count_texts(tmp_path / "absent.csv")


def test_a_line_of_a_megabyte_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text('body\n"' + "word " * 250_000 + '"\n')
    assert count_texts(path, min_df=1).matrix.toarray().tolist() == [[250_000]]
    assert csv.field_size_limit() < 2**20  # as it was


@pytest.mark.parametrize("kind", ["folder", "lines", "csv", "long csv", "list", "frame", "series"])
def test_raw_text_where_counts_are_expected(kind: str, tmp_path: Path) -> None:
    import pandas as pd

    from partwise import PoissonNMF

    prose = "a whole document of many words that nobody has counted yet"
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text(prose)
    (tmp_path / "lines.txt").write_text(prose)
    (tmp_path / "t.csv").write_text(f"id,body\n1,{prose}\n")
    (tmp_path / "long.csv").write_text(f'id,body\n1,"{prose * 5000}"\n')
    frame = pd.DataFrame({"body": [prose, prose]})
    given: dict[str, object] = {
        "folder": tmp_path / "texts",
        "lines": tmp_path / "lines.txt",
        "csv": tmp_path / "t.csv",
        "long csv": tmp_path / "long.csv",
        "list": [prose, prose],
        "frame": frame,
        "series": frame["body"],
    }
    attempt = read if isinstance(given[kind], Path) else PoissonNMF(2).fit
    with pytest.raises(ValueError, match="`partwise count`") as caught:
        attempt(given[kind])
    assert "CountVectorizer" in str(caught.value)
    assert len(str(caught.value)) < 400
