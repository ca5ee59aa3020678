"""``partwise predict``: expected values of cells under a fitted model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from partwise.cli.files import check_outputs, check_table_name
from partwise.cli.models import opened_model
from partwise.cli.options import DataFile, ModelFile, ProgressBar, Threads
from partwise.cli.output import Outcome
from partwise.cli.reading import ReadArguments

if TYPE_CHECKING:
    from partwise.core.data import SparseData
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
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="FILE", help="Table to write, a line a cell: .csv, .tsv or .parquet."
    ),
    top: int | None = typer.Option(
        None, "--top", metavar="N", min=1, help="Of each row the N likeliest features that it has not."
    ),
    row: list[str] | None = typer.Option(
        None, "--row", metavar="NAME", help="Only this row: its name, or its number from 0; may be repeated."
    ),
    seen: bool = typer.Option(False, "--seen", help="Let --top name features that a row has already, too."),
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
    columns = _predicted(fitted, table, row or (), top, seen)
    facts = {"model": model, "data": data, "n_cells": len(columns["expected"])}
    if output is not None:
        from partwise.io import write_columns

        write_columns(output, columns)
        return Outcome({**facts, "output": output}, written=[output])
    lines = [
        (sample, feature, f"{value:.6g}")
        for sample, feature, value in zip(columns["sample"], columns["feature"], columns["expected"], strict=True)
    ]
    return Outcome({**facts, **columns, "output": None}, lines)


def _predicted(model: Any, table: Table, wanted: Sequence[str], top: int | None, seen: bool) -> dict[str, list[Any]]:
    """Names of cells and their expected values (of bits: probabilities of a one), as columns of a table.

    Every missing cell of the rows that are wanted; or of each row the ``top`` features of the highest expectation,
    without those that it has, unless ``seen``.
    """
    import numpy as np

    from partwise.errors import InvalidInputError

    data = model.checked_data(table, caller="predict")
    counts, missing = data.to_scipy(), data.missing_matrix()
    rows, columns, values = [], [], []
    for numbers, expected in _expected(model, data, _positions(table, wanted)):
        if top is None:
            at, of = np.nonzero(missing[numbers].toarray())
        else:
            if not seen:
                expected = np.where(counts[numbers].toarray() > 0, -np.inf, expected)
            order = np.argsort(-expected, axis=1, kind="stable")[:, :top]
            kept = np.isfinite(np.take_along_axis(expected, order, axis=1))
            at, of = np.nonzero(kept)[0], order[kept]
        rows.append(numbers[at])
        columns.append(of)
        values.append(expected[at, of])
    if top is None and not sum(map(len, rows)):
        raise InvalidInputError("no cell is missing there, so there is nothing to predict: ask for --top N instead.")
    samples = table.row_labels
    features = data.column_labels if model.known_features is None else model.known_features
    return {
        "sample": [str(n if samples is None else samples[n]) for n in np.concatenate(rows)],
        "feature": [str(f if features is None else features[f]) for f in np.concatenate(columns)],
        "expected": np.concatenate(values).astype(float).tolist(),
    }


def _expected(model: Any, data: SparseData, positions: Any) -> Any:
    """Pieces of rows with their numbers and expected values; a row's activations do not depend on other rows."""
    import numpy as np

    step = max(1, _CELLS_AT_ONCE // max(1, data.shape[1]))
    runs = np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)
    for numbers in (run[start : start + step] for run in runs for start in range(0, len(run), step)):
        yield numbers, model.expected(model.transform(data.rows(int(numbers[0]), int(numbers[-1]) + 1)))


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
