"""The table of file formats: which reader a file name calls for, and what it may be told. Contents are not guessed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, cast

from partwise.errors import InvalidInputError
from partwise.io.table import Table

Duplicates = Literal["refuse", "sum"]
LabelSource = str | Path | Sequence[str]
_LABELS = frozenset(["vocabulary", "row_labels"])
_TEXT = frozenset(["header", "delimiter"])
_TRIPLES = frozenset(["long_columns", "duplicates"])
_REPEATS = frozenset(["duplicates"])


@dataclass(frozen=True)
class ReadOptions:
    """Options of `partwise.io.read`, which documents them; ``limit`` is the memory limit in bytes."""

    limit: int
    layer: str | None = None
    vocabulary: LabelSource | Literal[False] | None = None
    row_labels: LabelSource | Literal[False] | None = None
    header: bool = True
    index: bool = True
    delimiter: str | None = None
    long_columns: Sequence[str | int] | None = None
    duplicates: Duplicates = "refuse"
    feature_column: Literal["name", "id"] = "name"

    def given(self) -> set[str]:
        """Names of the options that differ from their defaults."""
        optional = [field for field in fields(self) if field.name != "limit"]
        return {field.name for field in optional if not _same(getattr(self, field.name), field.default)}

    def check(self) -> None:
        """Refuse values that no reader understands."""
        if self.duplicates not in {"refuse", "sum"}:
            raise InvalidInputError(f"duplicates={self.duplicates!r} is unknown; give 'refuse' or 'sum'.")
        if self.feature_column not in {"name", "id"}:
            raise InvalidInputError(f"feature_column={self.feature_column!r} is unknown; give 'name' or 'id'.")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise InvalidInputError(f"delimiter={self.delimiter!r} must be one character, and not a quote or line end.")
        if self.long_columns is not None and (
            isinstance(self.long_columns, str) or len(self.long_columns) not in {2, 3}
        ):
            raise InvalidInputError(
                f"long_columns={self.long_columns!r} must list the row, column and value columns (or row and column "
                "alone, each line then counting 1)."
            )


def _same(value: object, default: object) -> bool:
    """Equal, for values whose comparison may be an array."""
    return value is default or (isinstance(value, str) and value == default)


Reader = Callable[[Path, ReadOptions], Table]


@dataclass(frozen=True)
class Format:
    """One file format: its name, what it is, the file names it goes by, its reader and the options that apply."""

    name: str
    description: str
    patterns: tuple[str, ...]
    reader: str
    options: frozenset[str] = frozenset()

    def load_reader(self) -> Reader:
        """Import the reader, so that only the format in use is paid for."""
        module, _, function = self.reader.partition(":")
        return cast(Reader, getattr(importlib.import_module(f"partwise.io.{module}"), function))


def _with_gz(*patterns: str) -> tuple[str, ...]:
    return tuple(pattern + gz for pattern in patterns for gz in ("", ".gz"))


FORMATS: tuple[Format, ...] = (
    Format("npz", "SciPy sparse matrix, plain CSR or one dense array", ("*.npz",), "npz:read_npz", _LABELS),
    Format("npy", "dense NumPy array", ("*.npy",), "npz:read_npy", _LABELS),
    Format("mtx", "Matrix Market", _with_gz("*.mtx"), "matrix_market:read_matrix_market", _LABELS | _REPEATS),
    Format("10x", "10x Genomics directory", (), "matrix_market:read_10x", _REPEATS | {"feature_column"}),
    Format("h5ad", "AnnData in HDF5", ("*.h5ad",), "annotated:read_h5ad", frozenset(["layer"])),
    Format("zarr", "AnnData in zarr", ("*.zarr",), "annotated:read_zarr", frozenset(["layer"])),
    Format("docword", "UCI bag of words", _with_gz("docword.*.txt"), "bags_of_words:read_docword", _LABELS | _REPEATS),
    Format("ldac", "LDA-C", _with_gz("*.ldac", "*.dat"), "bags_of_words:read_ldac", _LABELS | _REPEATS),
    Format("csv", "wide CSV", _with_gz("*.csv"), "delimited_text:read_wide", _LABELS | _TEXT | {"index"}),
    Format("tsv", "wide TSV", _with_gz("*.tsv"), "delimited_text:read_wide", _LABELS | _TEXT | {"index"}),
    Format("long", "long CSV or TSV, by format='long' only", (), "delimited_text:read_long", _TEXT | _TRIPLES),
    Format("parquet", "long Parquet", ("*.parquet",), "parquet:read_parquet", _TRIPLES),
)


def find_format(path: Path, name: str | None) -> Format:
    """The format of that name or, without one, the format that the file name says."""
    if name is not None:
        for candidate in FORMATS:
            if candidate.name == name:
                return candidate
        names = ", ".join(known.name for known in FORMATS)
        raise InvalidInputError(f"format={name!r} is unknown; the formats are: {names}.")
    lowered = path.name.lower()
    for candidate in FORMATS:
        if any(fnmatchcase(lowered, pattern) for pattern in candidate.patterns):
            return candidate
    if path.is_dir():
        return next(known for known in FORMATS if known.name == "10x")
    patterns = ", ".join(pattern for known in FORMATS for pattern in known.patterns if not pattern.endswith(".gz"))
    raise InvalidInputError(
        f"the name {path.name} does not say what format it has; known are {patterns} (text formats also as .gz) and "
        "10x directories: rename it or pass format=."
    )
