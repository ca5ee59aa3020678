"""LDA-C: each line is one document, ``M term:count term:count ...`` with M pairs and terms numbered from 0."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from partwise.errors import FileFormatError
from partwise.io.labels import beside, find_labels, with_labels
from partwise.io.limits import refuse_above
from partwise.io.options import ReadOptions
from partwise.io.readers.integers import flat_integers
from partwise.io.source import bad_file, byte_chunks
from partwise.io.sparse import Array, check_declared, from_coordinates
from partwise.io.table import Table

_LINE = re.compile(rb"\s*\d{1,18}(?:\s+\d{1,18}:[+-]?\d{1,18})*\s*")
_VOCABULARY_ENDINGS = (".vocab.txt", ".vocab", ".tokens")
_BYTES_PER_ENTRY = 64


def read_ldac(path: Path, options: ReadOptions) -> Table:
    """Read documents x terms.

    The number of terms is that of the vocabulary (NAME.vocab.txt, NAME.vocab or NAME.tokens beside the file), and
    without one the largest term plus 1.
    """
    lengths, terms, counts = _parse(path, options.limit)
    stem = Path(path.name.removesuffix(".gz")).stem
    names = beside(stem, *_VOCABULARY_ENDINGS)
    vocabulary = find_labels(options.vocabulary, "vocabulary", path, names, options.limit)
    n_terms = max(int(terms.max(initial=-1)) + 1, 0 if vocabulary is None else len(vocabulary.labels))
    shape = (len(lengths), n_terms)
    check_declared(path, shape, len(terms), options.limit, _BYTES_PER_ENTRY)
    documents = np.repeat(np.arange(len(lengths)), lengths)
    entries = documents, terms, counts
    matrix = from_coordinates(
        entries, shape, path, options.duplicates, lambda n: f"term {terms[n]} of line {documents[n] + 1}"
    )
    return with_labels(Table(matrix, source=str(path)), path, options, names, beside(stem, ".rows.txt"))


def _parse(path: Path, limit: int) -> tuple[Array, Array, Array]:
    """Pairs in each document, and all terms and counts in one array each."""
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
