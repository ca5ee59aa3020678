"""Counts and texts of documents in temporary files, so that memory does not grow with them."""

import itertools
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from partwise.io.npz import Pieces, encoded_text, text_members

# Number of bytes, and of texts, read back at a time.
_BYTES, _TEXTS = 2**24, 2**14


class SpilledTexts:
    """One text per document, such as its name: the texts in a temporary file, and where each one ends."""

    def __init__(self, files: ExitStack) -> None:
        self.file = _new_file(files)
        self.ends, self.longest, self.is_known = array("q"), 0, False

    def __len__(self) -> int:
        return len(self.ends)

    def add(self, text: str | None) -> None:
        """Add the text of the next document; None if it is unknown."""
        encoded = encoded_text(text or "")
        self.file.write(encoded)
        self.ends.append((self.ends[-1] if self.ends else 0) + len(encoded))
        self.longest, self.is_known = max(self.longest, len(text or "")), self.is_known or text is not None

    def __iter__(self) -> Iterator[str]:
        self.file.seek(0)
        for start, end in itertools.pairwise(itertools.chain([0], self.ends)):
            yield self.file.read(end - start).decode("utf-8", "surrogatepass")

    def members(self, name: str) -> dict[str, Any]:
        """Members of an .npz archive that hold the texts as metadata."""
        size = self.ends[-1] if self.ends else 0
        return text_members(name, Pieces(np.uint8, size, _read(self.file, np.uint8)), np.array(self.ends))

    def labels(self) -> Pieces:
        """An array of str for an .npz archive."""
        dtype, left = np.dtype((np.str_, max(1, self.longest))), iter(self)
        starts = range(0, len(self), _TEXTS)
        return Pieces(dtype, len(self), (np.array([*itertools.islice(left, _TEXTS)], dtype=dtype) for _ in starts))


class SpilledCounts:
    """Counts of the documents so far, in two temporary files. The totals of words are in memory."""

    def __init__(self, files: ExitStack) -> None:
        self.in_documents, self.totals = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self.lengths: list[NDArray[np.int32]] = []
        self.closing = files
        self.files = _new_file(files), _new_file(files)

    def grow(self, n_words: int) -> None:
        """Allocate the totals for this many words."""
        more = n_words - self.totals.size
        self.in_documents = np.pad(self.in_documents, (0, more))
        self.totals = np.pad(self.totals, (0, more))

    def add(self, tokens: NDArray[np.int32], ends: NDArray[np.int64], n_words: int) -> None:
        """Count the words of some documents, given as word numbers and the end of each document."""
        self.grow(n_words)
        counts = sp.csr_array((np.ones(tokens.size, dtype=np.int32), tokens, ends), shape=(ends.size - 1, n_words))
        counts.sum_duplicates()
        self.in_documents += np.bincount(counts.indices, minlength=n_words)
        self.totals += np.bincount(tokens, minlength=n_words)
        self._write(self.files, counts)
        self.lengths.append(np.diff(counts.indptr).astype(np.int32))

    def _write(self, files: tuple[IO[bytes], ...], counts: Any) -> None:
        for file, values in zip(files, (counts.indices, counts.data), strict=True):
            file.write(values.astype(np.int32).tobytes())

    def select(self, kept: NDArray[np.int64]) -> None:
        """Keep some words, in this order: copy their counts chunk by chunk to new files."""
        place = np.full(self.totals.size, -1, dtype=np.int32)
        place[kept] = np.arange(kept.size, dtype=np.int32)
        before, self.files = self.files, (_new_file(self.closing), _new_file(self.closing))
        for file in before:
            file.seek(0)
        for chunk, stored in enumerate(self.lengths):
            words, counts = (np.frombuffer(file.read(4 * int(stored.sum())), dtype=np.int32) for file in before)
            inside = place[words] >= 0
            own = np.bincount(np.repeat(np.arange(stored.size), stored)[inside], minlength=stored.size)
            cells = counts[inside], place[words[inside]], np.concatenate(([0], np.cumsum(own)))
            block = sp.csr_array(cells, shape=(stored.size, kept.size))
            block.sort_indices()
            self._write(self.files, block)
            self.lengths[chunk] = own.astype(np.int32)
        for file in before:
            file.close()

    @property
    def pointers(self) -> NDArray[Any]:
        """Where the counts of each document start, as in a CSR matrix."""
        ends = np.concatenate(([0], *(lengths for lengths in self.lengths))).cumsum(dtype=np.int64)
        # SciPy converts both index arrays to the wider type. Narrow pointers avoid a wide copy of the positions.
        return ends.astype(np.int32 if ends[-1] <= np.iinfo(np.int32).max else np.int64)

    def matrix(self, n_words: int) -> Any:
        """All counts in memory."""
        pointers = self.pointers
        for file in self.files:
            file.seek(0)
        indices, data = (np.fromfile(file, dtype=np.int32) for file in self.files)
        return sp.csr_array((data, indices, pointers), shape=(pointers.size - 1, n_words))

    def members(self, n_words: int) -> dict[str, Any]:
        """Members of an .npz archive that hold the counts as ``scipy.sparse.save_npz`` does."""
        pointers = self.pointers
        found = [Pieces(np.int32, int(pointers[-1]), _read(file, np.int32)) for file in self.files]
        shape = np.array([pointers.size - 1, n_words], dtype=np.int64)
        named = dict(zip(("indices", "data"), found, strict=True))
        return {**named, "indptr": pointers, "format": np.array(b"csr"), "shape": shape}


def _new_file(files: ExitStack) -> IO[bytes]:
    return files.enter_context(tempfile.TemporaryFile())


def _read(file: IO[bytes], dtype: Any) -> Iterator[NDArray[Any]]:
    """The numbers in a file, in chunks."""
    file.seek(0)
    while content := file.read(_BYTES):
        yield np.frombuffer(content, dtype=dtype)
