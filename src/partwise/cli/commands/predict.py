"""``partwise predict``: expected values of cells under a fitted model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partwise.cli.files import check_outputs, check_table_name
from partwise.cli.models import opened_model
from partwise.cli.options import DataFile, ModelFile, ProgressBar, Threads
from partwise.cli.output import Outcome
from partwise.cli.reading import ReadArguments

if TYPE_CHECKING:
    from partwise.io import Table

EXAMPLES = (
    "partwise predict topics.partwise counts.npz --top 5 --row 0 --row 3",
    "partwise predict topics.partwise new_counts.npz --top 10 -o likely.csv",
    "partwise predict votes.partwise votes.csv -o missing.csv",
)
# Rows whose expectations are in memory at once, times features.
_CELLS_AT_ONCE = 2**22


def command(
    model: ModelFile,
    data: DataFile,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Table to write, a line a cell: .csv, .tsv or .parquet."),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", min=1, help="Of each row the N likeliest features that it has not."),
    ] = None,
    row: Annotated[
        list[str] | None,
        typer.Option("--row", metavar="NAME", help="Only this row: its name, or its number from 0; may be repeated."),
    ] = None,
    seen: Annotated[bool, typer.Option("--seen", help="Let --top name features that a row has already, too.")] = False,
    threads: Threads = 1,
    progress: ProgressBar = None,
    *,
    reading: ReadArguments,
) -> Outcome:
    """Predict missing cells, or what else a sample is likely to have.

    Without `--top`, every missing cell of DATA: the expected count, or the probability of a one. With `--top N`, the N
    features of the highest expectation that a row does not have yet. DATA may be the data of the fit or new rows of the
    same features; the parts stay as they are.
    """
    if seen and top is None:
        raise typer.BadParameter("it is for --top N.", param_hint="--seen")
    check_table_name("--output", output)
    check_outputs({"--output": output}, [model, data])
    fitted = opened_model(model, threads, progress)
    table = reading.read(data)
    cells = missing_cells(fitted, table, row or ()) if top is None else top_cells(fitted, table, row or (), top, seen)
    columns = predicted_table(cells, table, fitted)
    facts = {"model": model, "data": data, "n_cells": len(cells.values)}
    if output is not None:
        from partwise.io import write_columns

        write_columns(output, columns)
        return Outcome({**facts, "output": output}, written=[output])
    lines = [
        (sample, feature, f"{value:.6g}")
        for sample, feature, value in zip(columns["sample"], columns["feature"], columns["expected"], strict=True)
    ]
    return Outcome({**facts, **columns, "output": None}, lines)


@dataclass(frozen=True, eq=False)
class PredictedCells:
    """Rows, columns and expected values (of bits: probabilities of a one)."""

    rows: Any
    columns: Any
    values: Any


def missing_cells(model: Any, table: Table, wanted: Sequence[str]) -> PredictedCells:
    """Every missing cell of a table, or of some of its rows."""
    import numpy as np

    from partwise.errors import InvalidInputError

    hidden = _data(table).missing_matrix()
    rows, columns, values = [], [], []
    for numbers, expected in _expected(model, table, _positions(table, wanted)):
        at, of = np.nonzero(hidden[numbers].toarray())
        rows.append(numbers[at])
        columns.append(of)
        values.append(expected[at, of])
    found = PredictedCells(*(np.concatenate(part) for part in (rows, columns, values)))
    if not found.rows.size:
        raise InvalidInputError("no cell is missing there, so there is nothing to predict: ask for --top N instead.")
    return found


def top_cells(model: Any, table: Table, wanted: Sequence[str], top: int, seen: bool) -> PredictedCells:
    """Of each row the features of the highest expectation, those that it has left out unless ``seen``."""
    import numpy as np

    counts = _data(table).to_scipy()
    rows, columns, values = [], [], []
    for numbers, expected in _expected(model, table, _positions(table, wanted)):
        if not seen:
            expected = np.where(counts[numbers].toarray() > 0, -np.inf, expected)
        order = np.argsort(-expected, axis=1, kind="stable")[:, :top]
        chosen = np.take_along_axis(expected, order, axis=1)
        kept = np.isfinite(chosen)
        rows.append(np.broadcast_to(numbers[:, None], order.shape)[kept])
        columns.append(order[kept])
        values.append(chosen[kept])
    return PredictedCells(*(np.concatenate(part) for part in (rows, columns, values)))


def predicted_table(cells: PredictedCells, table: Table, model: Any) -> dict[str, list[Any]]:
    """The cells with names in place of positions, as columns of a table."""
    samples = table.row_labels
    features = table.column_labels if model.known_features is None else model.known_features
    return {
        "sample": [str(n) if samples is None else str(samples[n]) for n in cells.rows],
        "feature": [str(f) if features is None else str(features[f]) for f in cells.columns],
        "expected": [float(value) for value in cells.values],
    }


def _data(table: Table) -> Any:
    from partwise.core.data import CountMatrix

    return CountMatrix.build(table, integers=False, caller="predict")


def _expected(model: Any, table: Table, positions: Any) -> Any:
    """Pieces of rows with their numbers and expected values; a row's activations do not depend on other rows."""
    from dataclasses import replace

    import numpy as np
    import scipy.sparse as sp

    data = _data(table)
    matrix, missing = data.to_scipy(), data.missing_matrix()
    step = max(1, _CELLS_AT_ONCE // max(1, table.shape[1]))
    # Rows that follow each other, so that messages name them by their place in the whole.
    runs = np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)
    for numbers in (run[start : start + step] for run in runs for start in range(0, len(run), step)):
        labels = None if table.row_labels is None else table.row_labels[numbers]
        hidden = sp.csr_array(missing[numbers]) if data.n_missing else None
        rows, first = sp.csr_array(matrix[numbers]), table.first_row + int(numbers[0])
        piece = replace(table, matrix=rows, row_labels=labels, missing=hidden, first_row=first)
        yield numbers, model.expected(model.transform(piece))


def _positions(table: Table, wanted: Sequence[str]) -> Any:
    """Numbers of the rows that were named; all without a name."""
    import numpy as np

    from partwise.errors import InvalidInputError

    n_rows = table.shape[0]
    if not wanted:
        return np.arange(n_rows)
    labels = [] if table.row_labels is None else [str(label) for label in table.row_labels]
    found = []
    for name in wanted:
        if name in labels:
            found.append(labels.index(name))
        elif name.isdecimal() and int(name) < n_rows:
            found.append(int(name))
        else:
            raise InvalidInputError(f"there is no row {name!r}: --row takes a name, or a number below {n_rows}.")
    return np.array(found)
