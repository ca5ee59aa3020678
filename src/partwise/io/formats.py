"""The table of file formats: which reader a file name calls for. Nothing is guessed from what a file holds."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast

from partwise.errors import InvalidInputError
from partwise.io.options import ReadOptions
from partwise.io.table import Table

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
        return cast(Reader, getattr(importlib.import_module(f"partwise.io.readers.{module}"), function))


_LABELS = frozenset(["vocabulary", "row_labels"])
_TEXT = frozenset(["header", "delimiter"])
_TRIPLES = frozenset(["long_columns", "duplicates"])
_REPEATS = frozenset(["duplicates"])


def _with_gz(*patterns: str) -> tuple[str, ...]:
    return tuple(pattern + gz for pattern in patterns for gz in ("", ".gz"))


FORMATS: tuple[Format, ...] = (
    Format("npz", "SciPy sparse matrix, plain CSR or one dense array", ("*.npz",), "npz:read_npz", _LABELS),
    Format("npy", "dense NumPy array", ("*.npy",), "npz:read_npy", _LABELS),
    Format("mtx", "Matrix Market", _with_gz("*.mtx"), "matrix_market:read_matrix_market", _LABELS | _REPEATS),
    Format("10x", "10x Genomics directory", (), "tenx:read_10x", _REPEATS | {"feature_column"}),
    Format("h5ad", "AnnData in HDF5", ("*.h5ad",), "annotated:read_h5ad", frozenset(["layer"])),
    Format("zarr", "AnnData in zarr", ("*.zarr",), "annotated:read_zarr", frozenset(["layer"])),
    Format("docword", "UCI bag of words", _with_gz("docword.*.txt"), "docword:read_docword", _LABELS | _REPEATS),
    Format("ldac", "LDA-C", _with_gz("*.ldac", "*.dat"), "ldac:read_ldac", _LABELS | _REPEATS),
    Format("csv", "wide CSV", _with_gz("*.csv"), "wide:read_wide", _LABELS | _TEXT | {"index"}),
    Format("tsv", "wide TSV", _with_gz("*.tsv"), "wide:read_wide", _LABELS | _TEXT | {"index"}),
    Format("long", "long CSV or TSV, by format='long' only", (), "long:read_long", _TEXT | _TRIPLES),
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
