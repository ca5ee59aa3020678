"""Reading data as the options of a command ask."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import typer

from partwise.cli.options import option
from partwise.cli.output import say
from partwise.errors import InvalidInputError

if TYPE_CHECKING:
    from partwise.io import Table
    from partwise.storage.csr_folder import MappedCounts

Opened: TypeAlias = "Table | MappedCounts"
"""Data as they were opened: a table in memory, or a folder of rows on disk."""

_CHANNEL = re.compile(r"[ACGT]\[[ACGT]>[ACGT]\][ACGT]")


def format_names() -> list[str]:
    """Names of the formats that are read and written."""
    from partwise.io.reading import FORMATS

    return [known.name for known in FORMATS]


def _check_format(name: str | None) -> str | None:
    if name is not None and name not in format_names():
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(format_names())}.")
    return name


@dataclass(frozen=True)
class ReadArguments:
    """Options of `partwise.read`, with the same names and meanings."""

    transpose: bool = option("The file holds features x samples: swap rows and columns.", False)
    format: str | None = option(
        "Format, if the file name does not show it: npz, npy, mtx, 10x, h5ad, zarr, docword, ldac, csv, "
        "tsv, long, parquet.",
        callback=_check_format,
        autocompletion=format_names,
    )
    layer: str | None = option("Layer of an AnnData file to read instead of X.")
    vocabulary: str | None = option("File with the names of the columns, one per line.", metavar="FILE")
    row_labels: str | None = option("File with the names of the rows, one per line.", metavar="FILE")
    header: bool = option("Whether the first line of a text file names the columns.", True, "--header/--no-header")
    index: bool = option("Whether the first cell of each line names the row.", True, "--index/--no-index")
    label_columns: int = option("How many cells at the start of each line name the row.", 1, min=1)
    delimiter: str | None = option("What separates cells in a text file, if unusual; tab is a tab.", metavar="C")
    long_columns: str | None = option(
        "Columns of a long file that hold row, column and value: names, or positions from 0. With "
        "two columns every line counts 1.",
        metavar="ROW,COLUMN,VALUE",
    )
    duplicates: Literal["refuse", "sum"] = option("What to do when a text file gives the same cell twice.", "refuse")
    feature_column: Literal["name", "id"] = option("Which column names the features of a 10x directory.", "name")
    memory_limit: str | None = option("Refuse files that need more memory than this, such as 8GB.", metavar="SIZE")

    def open(self, path: Path) -> Opened:
        """Open a folder of rows on disk, for commands that work row by row; read anything else into memory.

        Print one line about what was opened or read.
        """
        from partwise.io import read
        from partwise.storage.csr_folder import is_csr_folder

        table: Opened
        if is_csr_folder(path):
            from partwise.storage.csr_folder import MappedCounts

            if self.given():
                raise InvalidInputError(
                    f"{path} is a folder of rows that were read before: drop {_option(next(iter(self.given())))}, or "
                    "give it to `partwise convert` when the folder is written."
                )
            table = MappedCounts.open_checked(path)
        else:
            table = read(path, **self.given())
        labels = table.row_labels
        if not self.transpose and labels is not None and len(labels) and all(map(_CHANNEL.search, map(str, labels))):
            say(f"the rows of {table.source} look like mutation types: if they are the features, use --transpose")
        told = "{n_samples} samples x {n_features} features, {n_nonzeros} nonzeros, {n_missing} missing"
        say(f"read {told.format(**table_size(table))} from {table.source}")
        return table

    def read(self, path: Path) -> Table:
        """Read a file as these options say, into memory."""
        from partwise.io import Table

        table = self.open(path)
        return table if isinstance(table, Table) else table.to_table(str(path))

    def given(self) -> dict[str, Any]:
        """Arguments of `partwise.read` that were given as options."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        given = {field.name: given[field.name] for field in fields(self) if given[field.name] != field.default}
        if "long_columns" in given:
            names = given["long_columns"].split(",")
            given["long_columns"] = [int(name) if name.isdecimal() else name for name in names]
        return given

    def refuse(self, why: str) -> None:
        """Refuse the first of these options that was given, where no data are read."""
        for name in self.given():
            raise typer.BadParameter(why, param_hint=_option(name))

    def words(self) -> list[str]:
        """The options that were given, as the user would type them."""
        found: list[str] = []
        for name in self.given():
            value = getattr(self, name)
            found += [_option(name)] if isinstance(value, bool) else [_option(name), str(value)]
        return found


def _option(name: str) -> str:
    return f"--no-{name}" if name in ("header", "index") else f"--{name.replace('_', '-')}"


def table_size(table: Opened) -> dict[str, int]:
    """Samples, features, observed nonzeros and missing cells of a table."""
    import numpy as np
    import scipy.sparse as sp

    from partwise.io import Table

    if isinstance(table, Table):
        stored = table.matrix.data if sp.issparse(table.matrix) else np.asarray(table.matrix)
        not_numbers = int(np.isnan(stored).sum()) if stored.dtype.kind == "f" else 0
        nonzeros = int(np.count_nonzero(stored)) - not_numbers
        missing = not_numbers + (0 if table.missing is None else int(table.missing.sum()))
    else:
        nonzeros, missing = table.nnz, table.n_missing
    return {"n_samples": table.shape[0], "n_features": table.shape[1], "n_nonzeros": nonzeros, "n_missing": missing}


def row_positions(labels: Any, n_rows: int, wanted: Sequence[str]) -> Any:
    """Numbers of the named rows; all rows if none is named."""
    import numpy as np

    if not wanted:
        return np.arange(n_rows)
    names = [] if labels is None else [str(label) for label in labels]
    found = []
    for name in wanted:
        if name in names:
            found.append(names.index(name))
        elif name.isdecimal() and int(name) < n_rows:
            found.append(int(name))
        else:
            raise InvalidInputError(f"there is no row {name!r}: --row takes a name, or a number below {n_rows}.")
    return np.array(found)
