"""Read any supported file into a Table: the formats, their options, and `read`. Nothing is guessed."""

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, cast

from partwise.errors import InvalidInputError
from partwise.io.source import COUNT_FIRST, bytes_allowed, check_name, check_regular
from partwise.io.table import Table

Duplicates = Literal["refuse", "sum"]
LabelSource = str | Path | Sequence[str]
_LABELS = frozenset(["vocabulary", "row_labels"])
_TEXT = frozenset(["header", "delimiter"])
_WIDE = _LABELS | _TEXT | {"index", "label_columns"}
_TRIPLES = frozenset(["long_columns", "duplicates"])
_REPEATS = frozenset(["duplicates"])
_SEPARATORS = {"csv": ",", "tsv": "\t"}
_TAB_WORDS = {"tab": "\t", "\\t": "\t"}
_DIRECTORIES = frozenset(["10x", "zarr"])


@dataclass(frozen=True)
class ReadOptions:
    """Options of `partwise.io.read`, which documents them; ``limit`` is the memory limit in bytes."""

    limit: int
    layer: str | None = None
    vocabulary: LabelSource | Literal[False] | None = None
    row_labels: LabelSource | Literal[False] | None = None
    header: bool = True
    index: bool = True
    label_columns: int = 1
    delimiter: str | None = None
    long_columns: Sequence[str | int] | None = None
    duplicates: Duplicates = "refuse"
    feature_column: Literal["name", "id"] = "name"

    def given(self) -> set[str]:
        """Names of the options that differ from their defaults."""
        found = set()
        for option in fields(self):
            value = getattr(self, option.name)
            # Values may be arrays, and comparing arrays gives an array.
            same = value is option.default or (isinstance(value, str | int) and value == option.default)
            if option.name != "limit" and not same:
                found.add(option.name)
        return found

    def check(self) -> None:
        """Refuse values that no reader understands."""
        if self.duplicates not in {"refuse", "sum"}:
            raise InvalidInputError(f"duplicates={self.duplicates!r} is unknown; give 'refuse' or 'sum'.")
        if self.feature_column not in {"name", "id"}:
            raise InvalidInputError(f"feature_column={self.feature_column!r} is unknown; give 'name' or 'id'.")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise InvalidInputError(
                f"delimiter={self.delimiter!r} must be one character (or 'tab'), and not a quote or line end."
            )
        if type(self.label_columns) is not int or self.label_columns < 1:
            raise InvalidInputError(f"label_columns={self.label_columns!r} must be a whole number from 1 on.")
        if self.label_columns > 1 and not self.index:
            raise InvalidInputError("label_columns= is for files whose lines start with labels: drop index=False.")
        wanted = self.long_columns
        if wanted is not None and (isinstance(wanted, str) or len(wanted) not in {2, 3}):
            raise InvalidInputError(
                f"long_columns={wanted!r} must list the row, column and value columns (or row and column alone, each "
                "line then counting 1)."
            )


Reader = Callable[[Path, ReadOptions], Table]


@dataclass(frozen=True)
class Format:
    """One file format: name, description, file names, reader, and the options that apply."""

    name: str
    description: str
    patterns: tuple[str, ...]
    reader: str
    options: frozenset[str] = frozenset()

    def load_reader(self) -> Reader:
        """Import the reader. Only the format in use is imported."""
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
    Format("csv", "wide CSV", _with_gz("*.csv"), "delimited_text:read_wide", _WIDE),
    Format("tsv", "wide TSV", _with_gz("*.tsv", "*.txt"), "delimited_text:read_wide", _WIDE),
    Format("long", "long CSV or TSV, by format='long' only", (), "delimited_text:read_long", _TEXT | _TRIPLES),
    Format("parquet", "long Parquet", ("*.parquet",), "parquet:read_parquet", _TRIPLES),
)


def find_format(path: Path, name: str | None) -> Format:
    """The format with that name or, without a name, the format of the file name."""
    if name is not None:
        named = {known.name: known for known in FORMATS}
        if name not in named:
            raise InvalidInputError(f"format={name!r} is unknown; the formats are: {', '.join(named)}.")
        return named[name]
    lowered = path.name.lower()
    for candidate in FORMATS:
        if any(fnmatchcase(lowered, pattern) for pattern in candidate.patterns):
            return candidate
    if path.is_dir():
        if next(path.rglob("*.txt"), None) is not None and not any(path.glob("matrix.mtx*")):
            raise InvalidInputError(f"{path} is a folder of text files, not of counts: {COUNT_FIRST}.")
        return next(known for known in FORMATS if known.name == "10x")
    if lowered.removesuffix(".gz").endswith((".txt", ".jsonl")):
        raise InvalidInputError(
            f"the name {path.name} does not say what format it has: if it holds raw text, {COUNT_FIRST}; otherwise"
            " rename it or pass format=."
        )
    if lowered.endswith(".partwise"):
        raise InvalidInputError(f"{path.name} has the name of a model, perhaps damaged: fit again, or give data.")
    patterns = ", ".join(pattern for known in FORMATS for pattern in known.patterns if not pattern.endswith(".gz"))
    raise InvalidInputError(
        f"the name {path.name} does not say what format it has; known are {patterns} (text formats also as .gz) and "
        "10x directories: rename it or pass format=."
    )


def read(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    transpose: bool = False,
    layer: str | None = None,
    vocabulary: LabelSource | Literal[False] | None = None,
    row_labels: LabelSource | Literal[False] | None = None,
    header: bool = True,
    index: bool = True,
    label_columns: int = 1,
    delimiter: str | None = None,
    long_columns: Sequence[str | int] | None = None,
    duplicates: Duplicates = "refuse",
    feature_column: Literal["name", "id"] = "name",
    memory_limit: int | float | str | None = None,
) -> Table:
    r"""Read a matrix of samples x features from a file.

    The file name, or ``format``, decides how it is read; nothing is guessed from the content. Values are taken as they
    are: whoever uses them checks whether they are counts or bits. Labels may repeat.

    | format     | file names                      | what is read                                                     |
    |------------|---------------------------------|------------------------------------------------------------------|
    | npz        | .npz                            | `scipy.sparse.save_npz`; plain CSR; one dense array              |
    | npy        | .npy                            | one dense array                                                  |
    | mtx        | .mtx(.gz)                       | Matrix Market                                                    |
    | 10x        | a directory                     | matrix.mtx, barcodes.tsv, features.tsv or genes.tsv              |
    | h5ad, zarr | .h5ad, .zarr                    | AnnData: X, or `layer`                                           |
    | docword    | docword.NAME.txt(.gz)           | UCI bag of words, with words from vocab.NAME.txt(.gz)            |
    | ldac       | .ldac(.gz), .dat(.gz)           | LDA-C, with terms from NAME.vocab.txt, NAME.vocab or NAME.tokens |
    | csv, tsv   | .csv(.gz), .tsv(.gz), .txt(.gz) | wide: names in the first line and in the first cell of each line |
    | long       | any, with `format="long"`       | one line for each row, column and value                          |
    | parquet    | .parquet                        | long: one record for each row, column and value                  |

    Plain CSR in a .npz file has the arrays data, indices, indptr and shape. Labels and metadata in it are read, too.
    Files of a 10x directory may end in .gz, and their features x cells are turned into cells x features. In text, an
    empty cell, NA, NaN or null is missing. In long files, pairs that are absent are zero, and rows and columns come in
    the order in which they first appear.

    For .npz, .npy, .mtx and LDA-C, labels are also taken from NAME.vocab.txt (columns) and NAME.rows.txt (rows), .gz
    or not, if such a file is next to the data.

    Parameters
    ----------
    path
        File, or directory for 10x and zarr.
    format
        Name of a format in the table above, for files whose name does not tell it.
    transpose
        Swap rows and columns after reading, for files that hold features x samples.
    layer
        Layer of an AnnData file to read instead of X.
    vocabulary, row_labels
        Labels of the columns and of the rows, before any transpose: a file with one label per line, or a sequence.
        False ignores label files beside the data.
    header, index
        Whether the first line names the columns, and (wide only) whether the first cell of each line names the row.
    label_columns
        Number of cells at the start of each line that name the row (wide only). They are joined: ``C>A`` and ``ACA``,
        as in catalogues of mutations, to ``A[C>A]A``, anything else with a space.
    delimiter
        Separator of cells, a character or "tab". By default a comma in .csv, a tab in .tsv and .txt, or as ``format``
        says if it is "csv" or "tsv".
    long_columns
        Which columns of a long file hold row, column and value: names, or positions from 0. With two columns (row,
        column), every line counts 1. Needed unless the file has exactly three columns.
    duplicates
        What to do if a text or long file has the same row and column twice: "refuse" or "sum". (Repeats in .npz and
        .h5ad matrices are always summed, as SciPy does.)
    feature_column
        Column of features.tsv that names the features of a 10x folder: "name" or "id".
    memory_limit
        Refuse files that declare more bytes than this (or text such as "8 GB"). By default the environment variable
        PARTWISE_MEMORY_LIMIT, else half of the memory that is available.

    Returns
    -------
    Table
        Matrix (SciPy CSR, or dense for dense formats) with labels; missing cells are NaN.

    Raises
    ------
    FileFormatError
        The file is truncated, malformed, hostile or too large; the message says where and what to do.
    InvalidInputError
        An option is unknown or does not apply to the format.
    FileNotFoundError, PermissionError
        The file does not exist or may not be read.
    MissingDependencyError
        The format needs a package that is not installed.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "votes.csv"
    >>> _ = file.write_text("country,call 1,call 2\nFrance,1,0\nPeru,,1\n")
    >>> table = read(file)
    >>> table.matrix
    array([[ 1.,  0.],
           [nan,  1.]])
    >>> table.row_labels.tolist()
    ['France', 'Peru']
    """
    source = Path(path).expanduser()
    lines = header, index, label_columns, _TAB_WORDS.get(delimiter or "", delimiter)
    where = layer, vocabulary, row_labels, *lines, long_columns, duplicates, feature_column
    options = ReadOptions(bytes_allowed(memory_limit), *where)
    options.check()
    check_name(source)
    if not source.exists():
        raise FileNotFoundError(f"there is no file {source}; check the name.")
    found = find_format(source, format)
    if format in _SEPARATORS and options.delimiter is None:  # whatever the file name is
        options = replace(options, delimiter=_SEPARATORS[format])
    foreign = sorted(options.given() - found.options)
    if foreign:
        able = ", ".join(known.name for known in FORMATS if foreign[0] in known.options)
        raise InvalidInputError(
            f"{foreign[0]}= does not apply to {source}, read as {found.name} ({found.description}); it is for: {able}."
        )
    if found.name not in _DIRECTORIES:
        check_regular(source)
    table = found.load_reader()(source, options)
    return table.transpose() if transpose else table
