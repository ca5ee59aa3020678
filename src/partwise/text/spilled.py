"""Counts of documents kept in temporary files until it is known which words stay."""

from __future__ import annotations

import tempfile
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


class SpilledCounts:
    """Counts of the documents so far, in two temporary files; totals of words in memory."""

    def __init__(self) -> None:
        self.in_documents, self.totals = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self.chunks: list[NDArray[np.int64]] = []
        self.files: tuple[IO[bytes], ...] = ()

    def __enter__(self) -> SpilledCounts:
        self.files = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        return self

    def __exit__(self, *what: object) -> None:
        for file in self.files:
            file.close()

    def grow(self, n_words: int) -> None:
        """Make room for the totals of so many words."""
        more = n_words - self.totals.size
        self.in_documents = np.pad(self.in_documents, (0, more))
        self.totals = np.pad(self.totals, (0, more))

    def add(self, tokens: NDArray[np.int32], ends: NDArray[np.int64], n_words: int) -> None:
        """Count the words of some documents, given as numbers of words and where each document ends."""
        self.grow(n_words)
        ones = np.ones(tokens.size, dtype=np.int32)
        counts = sp.csr_array((ones, tokens, ends), shape=(ends.size - 1, n_words))
        counts.sum_duplicates()
        self.in_documents += np.bincount(counts.indices, minlength=n_words)
        self.totals += np.bincount(tokens, minlength=n_words)
        self.chunks.append(np.diff(counts.indptr).astype(np.int64))
        for file, values in zip(self.files, (counts.indices, counts.data), strict=True):
            file.write(values.astype(np.int32).tobytes())

    def matrix(self, kept: NDArray[np.int64], n_rows: int) -> Any:
        """Counts of some words, read back chunk by chunk."""
        place = np.full(self.totals.size, -1, dtype=np.int32)
        place[kept] = np.arange(kept.size, dtype=np.int32)
        size = int(self.in_documents[kept].sum())
        indices, data, lengths = np.empty(size, np.int32), np.empty(size, np.int32), np.zeros(n_rows + 1, np.int64)
        at, row = 0, 0
        for file in self.files:
            file.seek(0)
        for stored in self.chunks:
            n_stored = int(stored.sum())
            words, counts = (np.frombuffer(file.read(4 * n_stored), dtype=np.int32) for file in self.files)
            inside = place[words] >= 0
            rows = np.repeat(np.arange(stored.size), stored)[inside]
            own = np.bincount(rows, minlength=stored.size)
            block = sp.csr_array(
                (counts[inside], place[words[inside]], np.concatenate(([0], np.cumsum(own)))),
                shape=(stored.size, kept.size),
            )
            block.sort_indices()
            indices[at : at + block.nnz], data[at : at + block.nnz] = block.indices, block.data
            lengths[row + 1 : row + 1 + stored.size] = own
            at, row = at + block.nnz, row + stored.size
        # SciPy gives positions and pointers the wider type of the two: narrow pointers save a wide copy of positions.
        pointers = np.cumsum(lengths).astype(np.int32 if size <= np.iinfo(np.int32).max else np.int64)
        return sp.csr_array((data, indices, pointers), shape=(n_rows, kept.size))
