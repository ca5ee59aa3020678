"""Bags of words as text: UCI docword files and LDA-C."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from partwise.errors import FileFormatError
from partwise.io.reading import ReadOptions
from partwise.io.source import bad_file, byte_chunks, check_entries_fit, refuse_above
from partwise.io.sparse import Array, check_declared, from_coordinates
from partwise.io.table import Table, beside, find_labels, with_labels
from partwise.io.text_cells import flat_integers

_INTEGER = re.compile(rb"[+-]?[0-9]{1,18}")
_HEADER = re.compile(rb"\s*(\d{1,18})\s*\n\s*(\d{1,18})\s*\n\s*(\d{1,18})[ \t\r]*(?:\n|\Z)")
_BYTES_PER_ENTRY = 64
_SHORTEST_ENTRY = len("1 1 1\n")
_LINE = re.compile(rb"\s*\d{1,18}(?:\s+\d{1,18}:[+-]?\d{1,18})*\s*")
_VOCABULARY_ENDINGS = (".vocab.txt", ".vocab", ".tokens")


def parse_integers(path: Path, chunk: bytes, lines_before: int, columns: int) -> Array:
    """An array of shape (lines, columns); blank lines are skipped."""
    values = flat_integers(chunk)
    n_lines = chunk.count(b"\n") + (not chunk.endswith(b"\n") and bool(chunk))
    if values is None or len(values) != columns * n_lines:
        filled_lines = check_lines(path, chunk, lines_before, columns)
        if values is None or len(values) != columns * filled_lines:
            raise bad_file(path, f"the lines after line {lines_before} hold something that is not an integer")
    return values.reshape(-1, columns)


def check_lines(path: Path, chunk: bytes, lines_before: int, columns: int) -> int:
    """Count the lines that are not blank; raise at the first one that does not hold this many integers."""
    filled = 0
    for number, line in enumerate(chunk.split(b"\n"), start=lines_before + 1):
        words = line.split()
        if words and (len(words) != columns or not all(map(_INTEGER.fullmatch, words))):
            raise bad_file(path, f"line {number} does not hold {columns} integers", "correct that line")
        filled += bool(words)
    return filled


def read_docword(path: Path, options: ReadOptions) -> Table:
    """Read documents x words; the words may be in vocab.NAME.txt beside it."""
    chunks = byte_chunks(path, options.limit)
    first = next(chunks, b"")
    header = _HEADER.match(first)
    if header is None:
        raise bad_file(path, "its first three lines are not the numbers of documents, words and entries")
    n_documents, n_words, entries = (int(number) for number in header.groups())
    shape = n_documents, n_words
    check_entries_fit(path, entries, _SHORTEST_ENTRY)
    check_declared(path, shape, entries, options.limit, _BYTES_PER_ENTRY)
    triples = _triples(path, itertools.chain([first[header.end() :]], chunks), header[0].count(b"\n"), entries)
    _check_range(path, triples, 0, n_documents, "document")
    _check_range(path, triples, 1, n_words, "word")
    documents, words, counts = triples.T

    def place(n: int) -> str:
        return f"entry {n + 1} (document {documents[n]}, word {words[n]})"

    matrix = from_coordinates((documents - 1, words - 1, counts), shape, path, options.duplicates, place)
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


def read_ldac(path: Path, options: ReadOptions) -> Table:
    """Read documents x terms.

    The number of terms is the size of the vocabulary (NAME.vocab.txt, NAME.vocab or NAME.tokens beside the file).
    Without a vocabulary, it is the largest term plus 1.
    """
    lengths, terms, counts = _parse(path, options.limit)
    stem = Path(path.name.removesuffix(".gz")).stem
    names = beside(stem, *_VOCABULARY_ENDINGS)
    vocabulary = find_labels(options.vocabulary, "vocabulary", path, names, options.limit)
    shape = (len(lengths), max(int(terms.max(initial=-1)) + 1, 0 if vocabulary is None else len(vocabulary.labels)))
    check_declared(path, shape, len(terms), options.limit, _BYTES_PER_ENTRY)
    documents = np.repeat(np.arange(len(lengths)), lengths)
    entries = documents, terms, counts
    matrix = from_coordinates(
        entries, shape, path, options.duplicates, lambda n: f"term {terms[n]} of line {documents[n] + 1}"
    )
    return with_labels(Table(matrix, source=str(path)), path, options, names, beside(stem, ".rows.txt"))


def _parse(path: Path, limit: int) -> tuple[Array, Array, Array]:
    """Number of pairs in each document, and one array each of all terms and counts."""
    lengths, terms, counts = [], [], []
    lines_before = entries = 0
    for chunk in byte_chunks(path, limit):
        if not chunk.strip():
            continue
        pairs_per_line, pairs = _parse_chunk(path, chunk, lines_before)
        lines_before += len(pairs_per_line)
        entries += len(pairs)
        refuse_above(limit, _BYTES_PER_ENTRY * entries, f"{path} (up to line {lines_before})")
        lengths.append(pairs_per_line)
        terms.append(pairs[:, 0])
        counts.append(pairs[:, 1])
    if not lengths:
        raise bad_file(path, "it is empty")
    return np.concatenate(lengths), np.concatenate(terms), np.concatenate(counts)


def _parse_chunk(path: Path, chunk: bytes, lines_before: int) -> tuple[Array, Array]:
    text = np.frombuffer(chunk.rstrip(), dtype=np.uint8)
    line_ends = np.flatnonzero(text == ord("\n"))
    colons = np.searchsorted(np.flatnonzero(text == ord(":")), np.append(line_ends, len(text)))
    pairs_per_line = np.diff(colons, prepend=0)
    values = flat_integers(chunk.replace(b":", b" "))
    sizes = 1 + 2 * pairs_per_line
    starts = np.cumsum(sizes) - sizes
    if values is None or len(values) != sizes.sum() or (values[starts] != pairs_per_line).any():
        raise _bad_line(path, chunk, lines_before)
    keep = np.ones(len(values), dtype=bool)
    keep[starts] = False
    pairs = values[keep].reshape(-1, 2)
    if (pairs[:, 0] < 0).any():
        raise _bad_line(path, chunk, lines_before)
    return pairs_per_line, pairs


def _bad_line(path: Path, chunk: bytes, lines_before: int) -> FileFormatError:
    for number, line in enumerate(chunk.rstrip().split(b"\n"), start=lines_before + 1):
        if not _LINE.fullmatch(line):
            return bad_file(path, f"line {number} is not 'M term:count term:count ...'", "correct that line")
        declared, found = int(line.split(maxsplit=1)[0]), line.count(b":")
        if declared != found:
            return bad_file(path, f"line {number} declares {declared} terms but has {found}", "correct that line")
    return bad_file(path, f"the lines after line {lines_before} are not 'M term:count term:count ...'")
