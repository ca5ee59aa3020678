"""UCI bag of words: docword.NAME.txt with three header lines (D, W, NNZ), then ``document word count``, from 1."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from partwise.io.labels import beside, with_labels
from partwise.io.options import ReadOptions
from partwise.io.readers.integers import parse_integers
from partwise.io.source import bad_file, byte_chunks, check_entries_fit
from partwise.io.sparse import Array, check_declared, from_coordinates
from partwise.io.table import Table

_HEADER = re.compile(rb"\s*(\d{1,18})\s*\n\s*(\d{1,18})\s*\n\s*(\d{1,18})[ \t\r]*(?:\n|\Z)")
_BYTES_PER_ENTRY = 64
_SHORTEST_ENTRY = len("1 1 1\n")


def read_docword(path: Path, options: ReadOptions) -> Table:
    """Read documents x words; the words may lie beside it in vocab.NAME.txt."""
    chunks = byte_chunks(path, options.limit)
    first = next(chunks, b"")
    header = _HEADER.match(first)
    if header is None:
        raise bad_file(path, "its first three lines are not the numbers of documents, words and entries")
    n_documents, n_words, entries = (int(number) for number in header.groups())
    shape = n_documents, n_words
    check_entries_fit(path, entries, _SHORTEST_ENTRY)
    check_declared(path, shape, entries, options.limit, _BYTES_PER_ENTRY)
    body = itertools.chain([first[header.end() :]], chunks)
    triples = _triples(path, body, header[0].count(b"\n"), entries)
    _check_range(path, triples, 0, n_documents, "document")
    _check_range(path, triples, 1, n_words, "word")
    documents, words, counts = triples.T
    matrix = from_coordinates(
        (documents - 1, words - 1, counts),
        shape,
        path,
        options.duplicates,
        lambda n: f"entry {n + 1} (document {documents[n]}, word {words[n]})",
    )
    name = path.name.removesuffix(".gz").removeprefix("docword.")
    return with_labels(Table(matrix, source=str(path)), path, options, beside(f"vocab.{name}", ""))


def _triples(path: Path, chunks: Iterator[bytes], lines_before: int, entries: int) -> Array:
    triples = np.empty((entries, 3), dtype=np.int64)
    filled = 0
    for chunk in chunks:
        values = parse_integers(path, chunk, lines_before, 3)
        lines_before += chunk.count(b"\n")
        if filled + len(values) > entries:
            raise bad_file(path, f"it has more entries than the {entries} that its header declares")
        triples[filled : filled + len(values)] = values
        filled += len(values)
    if filled < entries:
        raise bad_file(path, f"it ends after {filled} of the {entries} entries that its header declares")
    return triples


def _check_range(path: Path, triples: Array, column: int, size: int, what: str) -> None:
    outside = np.flatnonzero((triples[:, column] < 1) | (triples[:, column] > size))
    if outside.size:
        number = triples[outside[0], column]
        raise bad_file(path, f"entry {outside[0] + 1} has {what} {number}, but they are numbered from 1 to {size}")
