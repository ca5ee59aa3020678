"""``partwise predict``: expected values of cells under a fitted model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partwise.cli.files import check_outputs, table_outcome
from partwise.cli.options import DataFile, ModelFile, OnlyRows, RunArguments, to_write
from partwise.cli.output import Outcome
from partwise.cli.reading import ReadArguments, row_positions

if TYPE_CHECKING:
    from partwise.core.data import SparseData
    from partwise.io import Table

EXAMPLES = (
    "partwise predict votes.partwise votes.csv -o missing.csv",
    "partwise predict votes.partwise votes.csv --row 0 --row 3",
)
# Largest number of expected values (rows x features) in memory at once.
_CELLS_AT_ONCE = 2**22


def command(
    model: ModelFile,
    data: DataFile,
    output: Path | None = to_write("Table to write, with one line per cell: .csv, .tsv or .parquet."),
    row: OnlyRows = None,
    *,
    run: RunArguments,
    reading: ReadArguments,
) -> Outcome:
    """Predict missing cells.

    Prints the expected count of each missing cell, or the probability of a yes. DATA may be the data of the fit or new
    rows. Features of the model that DATA does not have count as missing, too. `partwise recommend` lists what else a
    sample is likely to have.
    """
    check_outputs({"--output": output}, [model, data], tables=["--output"])
    fitted = run.opened(model)
    columns = _predicted(fitted, reading.read(data), row or ())
    return table_outcome({"model": model, "data": data, "n_cells": len(columns["expected"])}, columns, output)


def _predicted(model: Any, table: Table, wanted: Sequence[str]) -> dict[str, list[Any]]:
    """Missing cells of the chosen rows and their expected values (of bits: probabilities of a one)."""
    import numpy as np

    from partwise.errors import InvalidInputError

    data = model.checked_data(table, caller="predict")
    missing = data.missing_matrix()
    rows, columns, values = [], [], []
    for numbers, expected in _expected(model, data, row_positions(table.row_labels, table.shape[0], wanted)):
        at, of = np.nonzero(missing[numbers].toarray())
        rows.append(numbers[at])
        columns.append(of)
        values.append(expected[at, of])
    if not sum(map(len, rows)):
        raise InvalidInputError(
            "no cell is missing there, so there is nothing to predict: `partwise recommend` lists likely features."
        )
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
