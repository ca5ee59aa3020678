"""Count the words of documents in chunks, so that texts may be larger than memory."""

import itertools
import os
import warnings
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.errors import IgnoredWordsWarning, InvalidInputError
from partwise.io.atomic import write_atomically
from partwise.io.npz import write_npz
from partwise.io.source import bytes_allowed
from partwise.io.table import Labels, Table, label_array, read_label_file, text_array
from partwise.text.documents import Columns, Document, documents
from partwise.text.spilled import SpilledCounts, SpilledTexts

TOKEN_PATTERN = r"(?u)\b\w\w+\b"
"""The default definition of a word, as in scikit-learn: two or more letters, digits or underscores."""

# Characters counted at once: a few documents, or thousands of short ones.
_CHUNK = 2**23

Words = str | os.PathLike[str] | Sequence[str]


@dataclass(frozen=True)
class Counted:
    """Counts in temporary files, and numbers about the words.

    Attributes
    ----------
    source
        Where the documents came from.
    words
        Words that are kept, in order.
    n_tokens, n_words
        Number of tokens and of different words in all documents, without stop words.
    kept_tokens
        Number of tokens of the words that are kept.
    empty
        Number of documents without any such word.
    """

    source: str
    words: Labels
    n_tokens: int
    n_words: int
    kept_tokens: int
    empty: int
    counts: SpilledCounts
    names: SpilledTexts
    metadata: dict[str, SpilledTexts]

    def table(self) -> Table:
        """The whole table in memory."""
        names = label_array(list(self.names), "the names of documents", bytes_allowed())
        known = {name: text_array(list(texts)) for name, texts in self.metadata.items()}
        return Table(self.counts.matrix(self.words.size), names, self.words, source=self.source, metadata=known)

    def write(self, path: Path) -> None:
        """Write the table to an .npz file, piece by piece.

        Parameters
        ----------
        path
            The file.
        """
        members = self.counts.members(self.words.size)
        members |= {"row_labels": self.names.labels(), "column_labels": self.words}
        for name, texts in self.metadata.items():
            members |= texts.members(name)
        write_atomically(path, lambda aside: write_npz(aside, members))


def count_texts(
    source: Any,
    *,
    text_column: str | None = None,
    id_column: str | None = None,
    group_column: str | None = None,
    time_column: str | None = None,
    min_df: int | float = 2,
    max_df: int | float = 1.0,
    max_features: int | None = None,
    stop_words: Words | None = None,
    ngrams: tuple[int, int] = (1, 1),
    token_pattern: str = TOKEN_PATTERN,
    vocabulary: Words | None = None,
    keep_texts: bool = False,
    encoding: str = "utf-8",
) -> Table:
    """Count the words of documents. The result is a table of documents x words.

    Words are found by the analyzer of scikit-learn's ``CountVectorizer``, in lower case, and counted chunk by chunk.

    Parameters
    ----------
    source
        A folder of .txt files; folders inside it become groups. A .csv, .tsv, .jsonl (each also .gz) or .parquet file
        with one document per record. A .txt file with one document per line. A data frame, or any sequence of texts.
    text_column, id_column, group_column, time_column
        Columns that hold the text, and the name, group and time of each document. Group and time are kept as metadata
        of the table, which reports show.
    min_df, max_df
        Leave out words that occur in fewer, or more, documents: a number of documents (int) or a share of them (float).
    max_features
        Keep only this many words, those with the highest counts.
    stop_words
        Words to leave out: ``"english"`` (scikit-learn's list), a file with one word per line, or a sequence.
    ngrams
        Lengths of the shortest and longest word sequences to count; ``(1, 2)`` counts pairs as well.
    token_pattern
        Regular expression for a word.
    vocabulary
        Count these words only, in this order: a fitted model, a sequence, or a file with one word per line. A warning
        says how many other words were ignored. ``min_df``, ``max_df`` and ``max_features`` do not apply.
    keep_texts
        Keep the texts as metadata, so that reports can show them.
    encoding
        Encoding of text files.

    Returns
    -------
    Table
        Counts with the names of documents and words, and metadata ``group``, ``time`` and ``text`` if they were given.
        ``partwise.io.write_matrix("counts.npz", table)`` writes all of it.

    Examples
    --------
    >>> from partwise import count_texts
    >>> table = count_texts(["a cat and a dog", "the dog and the bone", "Dog!"], min_df=1, stop_words="english")
    >>> table.column_labels.tolist(), table.matrix.toarray().tolist()
    (['bone', 'cat', 'dog'], [[0, 1, 1], [1, 0, 1], [0, 0, 1]])
    """
    columns = Columns(text_column, id_column, group_column, time_column)
    wanted = Wanted(min_df, max_df, max_features, stop_words, ngrams, token_pattern, vocabulary)
    with counted(source, columns, wanted, keep_texts=keep_texts, encoding=encoding) as found:
        return found.table()


@dataclass(frozen=True)
class Wanted:
    """Which words to count, from the arguments of `count_texts`."""

    min_df: int | float = 2
    max_df: int | float = 1.0
    max_features: int | None = None
    stop_words: Words | None = None
    ngrams: tuple[int, int] = (1, 1)
    token_pattern: str = TOKEN_PATTERN
    vocabulary: Words | None = None

    def analyzer(self) -> Any:
        """The function that splits a text into words: scikit-learn's analyzer."""
        from sklearn.feature_extraction.text import CountVectorizer

        stop = self.stop_words
        if stop is not None and stop != "english":
            if isinstance(stop, str) and not Path(stop).expanduser().exists():
                raise InvalidInputError(f"stop_words={stop!r} is neither 'english' nor a file with one word per line.")
            stop = _words(stop)
        try:
            pattern, lengths = self.token_pattern, tuple(self.ngrams)
            made = CountVectorizer(stop_words=stop, ngram_range=lengths, token_pattern=pattern, min_df=1)
            made._validate_params()
            made._validate_ngram_range()
            return made.build_analyzer()
        except Exception as error:  # errors of scikit-learn and re about their arguments
            raise InvalidInputError(f"stop_words=, ngrams= or token_pattern= cannot be used: {error}") from error

    def check(self) -> None:
        """Refuse thresholds that make no sense."""
        for name, value in (("min_df", self.min_df), ("max_df", self.max_df)):
            share = isinstance(value, float)
            if not (0.0 <= value <= 1.0 if share else value >= 1):
                raise InvalidInputError(f"{name}={value} must be 1 or more documents, or a share from 0.0 to 1.0.")
        if self.max_features is not None and self.max_features < 1:
            raise InvalidInputError(f"max_features={self.max_features} must be at least 1.")

    def kept(self, words: list[str], in_documents: NDArray[Any], totals: NDArray[Any], n: int) -> NDArray[np.int64]:
        """Positions of the words that are kept, in alphabetical order."""
        low = self.min_df * n if isinstance(self.min_df, float) else self.min_df
        high = self.max_df * n if isinstance(self.max_df, float) else self.max_df
        if low > n:
            raise InvalidInputError(f"no word is in {self.min_df} documents, as there are only {n}: lower min_df=.")
        if high < low:
            raise InvalidInputError(f"max_df={self.max_df} leaves out what min_df={self.min_df} keeps: widen them.")
        chosen = np.flatnonzero((in_documents >= low) & (in_documents <= high))
        chosen = np.array(sorted(chosen.tolist(), key=words.__getitem__), dtype=np.int64)
        if self.max_features is not None and chosen.size > self.max_features:
            chosen = chosen[np.sort(np.argsort(-totals[chosen], kind="stable")[: self.max_features])]
        if not chosen.size:
            raise InvalidInputError(
                f"none of the {len(words)} words of {n} documents is left to count: lower min_df=, raise max_df=, or"
                " check the texts."
            )
        return chosen


@contextmanager
def counted(
    source: Any, columns: Columns, wanted: Wanted, *, keep_texts: bool = False, encoding: str = "utf-8"
) -> Iterator[Counted]:
    """Count documents into temporary files, which are removed when the context ends.

    Parameters
    ----------
    source, keep_texts, encoding
        As for `count_texts`.
    columns, wanted
        Its other arguments.
    """
    wanted.check()
    given = None if wanted.vocabulary is None else _words(wanted.vocabulary)
    if given is not None and len(set(given)) < len(given):
        raise InvalidInputError("vocabulary has a word twice: give each word once.")
    with ExitStack() as files:
        counts = SpilledCounts(files)
        about = {name: SpilledTexts(files) for name in ("name", "group", "time", "text")}
        texts = documents(source, columns, encoding)
        words = list(_count(texts, wanted.analyzer(), given or [], about, keep_texts, counts))
        names = about.pop("name")
        if not len(names):
            raise InvalidInputError("there are no documents in source: give at least one.")
        if given is None:
            kept = wanted.kept(words, counts.in_documents, counts.totals, len(names))
        else:
            kept = np.arange(len(given))
        labels = label_array([words[at] for at in kept], "the vocabulary", bytes_allowed())
        del words
        counts.select(kept)
        n_tokens, kept_tokens = int(counts.totals.sum()), int(counts.totals[kept].sum())
        n_words = int(np.count_nonzero(counts.totals))
        if given is not None and kept_tokens < n_tokens:
            new = n_words - int(np.count_nonzero(counts.totals[kept]))
            told = f"{n_tokens - kept_tokens} of {n_tokens} tokens were ignored"
            warnings.warn(f"{told}: their {new} words are not in the vocabulary.", IgnoredWordsWarning, stacklevel=4)
        where = str(source) if isinstance(source, str | os.PathLike) else "texts"
        empty = int(np.sum(np.diff(counts.pointers) == 0))
        known = {name: texts for name, texts in about.items() if texts.is_known}
        yield Counted(where, labels, n_tokens, n_words, kept_tokens, empty, counts, names, known)


def _words(words: Words) -> list[str]:
    """Words from a file or a sequence."""
    if isinstance(words, str | os.PathLike):
        return [str(word) for word in read_label_file(Path(words).expanduser(), bytes_allowed()) if word]
    return [str(word) for word in getattr(words, "feature_names_in_", words)]


def _count(
    texts: Iterator[Document],
    analyze: Any,
    first: Iterable[str],
    about: dict[str, SpilledTexts],
    keep_texts: bool,
    into: SpilledCounts,
) -> dict[str, int]:
    """Count chunk by chunk into files. Return the number of each word, in order of first appearance."""
    codes: defaultdict[str, int] = defaultdict()
    codes.default_factory = codes.__len__
    for word in first:
        codes[word]
    tokens, ends, characters = array("i"), [0], 0
    for document in itertools.chain(texts, [None]):
        if document is not None:
            known = document.name, document.group, document.time, document.text if keep_texts else None
            for column, value in zip(about.values(), known, strict=True):
                column.add(value)
            tokens.extend(map(codes.__getitem__, analyze(document.text)))
            ends.append(len(tokens))
            characters += len(document.text)
        if len(ends) > 1 and (document is None or characters >= _CHUNK):
            into.add(np.frombuffer(tokens, dtype=np.int32), np.array(ends), len(codes))
            tokens, ends, characters = array("i"), [0], 0
    into.grow(len(codes))
    return codes
