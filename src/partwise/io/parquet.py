"""Long Parquet: one record for each row, column and value."""

from pathlib import Path
from typing import Any

import numpy as np

from partwise.io.delimited_text import column_positions
from partwise.io.optional import require
from partwise.io.reading import ReadOptions
from partwise.io.source import bad_file, library, refuse_above
from partwise.io.sparse import Array, from_coordinates
from partwise.io.table import Labels, Table, label_array

_BYTES_PER_RECORD = 64


def read_parquet(path: Path, options: ReadOptions) -> Table:
    """Read a sparse table: absent pairs are zero, null values are missing, and labels keep the order of the file."""
    parquet = require("pyarrow.parquet", "arrow", "reading Parquet files")
    with library(path, "a Parquet file"), parquet.ParquetFile(path) as file:
        schema, declared = file.schema_arrow, file.metadata
        groups = sum(declared.row_group(n).num_rows for n in range(declared.num_row_groups))
        n_records = max(int(declared.num_rows), int(groups))
    names = list(schema.names)
    wanted = [names[position] for position in column_positions(path, names, len(names), options.long_columns)]
    refuse_above(options.limit, _BYTES_PER_RECORD * n_records, f"{path} ({n_records} records)")
    for name in wanted[:2]:
        if schema.field(name).type.num_fields:
            raise bad_file(path, f"column {name!r} has labels of type {schema.field(name).type}", "save plain text")
    # Labels stay dictionary-encoded, so that a long label that repeats is stored once.
    with library(path, "a Parquet file"), parquet.ParquetFile(path, read_dictionary=wanted[:2]) as file:
        table = file.read(columns=wanted)
    rows, row_labels = _codes(table, wanted[0], path, options.limit)
    columns, column_labels = _codes(table, wanted[1], path, options.limit)
    values = _values(table, wanted[2], path) if len(wanted) == 3 else np.ones(len(rows))
    shape = len(row_labels), len(column_labels)
    matrix = from_coordinates((rows, columns, values), shape, path, options.duplicates, "record {}".format)
    return Table(matrix, row_labels, column_labels, source=str(path))


def _codes(table: Any, name: str, path: Path, limit: int) -> tuple[Array, Labels]:
    """Labels in order of first appearance, and the number of the label of each record."""
    import pyarrow as pa

    with library(path, "a Parquet file with plain labels"):
        column = table.column(name)
        if column.null_count:
            first = int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise bad_file(path, f"column {name!r} has no label in record {first}", "fill in the label")
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        encoded = column.unify_dictionaries().combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):  # no records
            return np.zeros(0, dtype=np.int64), label_array([], path, limit)
        encoded.validate(full=True)
        dictionary = encoded.dictionary.cast(pa.string())
        codes = encoded.indices.to_numpy().astype(np.int64)
    used, first_seen, codes = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first_seen)
    rank = np.empty(len(used), dtype=np.int64)
    rank[order] = np.arange(len(used))
    with library(path, "a Parquet file with plain labels"):
        labels = dictionary.take(pa.array(used[order])).to_pylist()
    if None in labels:
        raise bad_file(path, f"column {name!r} has an empty label", "fill in the label")
    return rank[codes], label_array(labels, path, limit)


def _values(table: Any, name: str, path: Path) -> Array:
    import pyarrow as pa

    column = table.column(name)
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    if not any(kind(column.type) for kind in kinds):
        raise bad_file(path, f"column {name!r} has values of type {column.type}, not numbers", "save numbers")
    with library(path, "a Parquet file with plain numbers"):
        return np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
