"""``partwise predict``: missing cells, or the likeliest features of a sample."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partwise.cli.output import show, show_cells, show_json
from partwise.cli.parameters import DataFile, Json, ModelFile, ProgressBar, Threads
from partwise.cli.reading import ReadArguments

EXAMPLES = (
    "partwise predict topics.partwise counts.npz --top 5 --row 0 --row 3",
    "partwise predict topics.partwise new_counts.npz --top 10 -o likely.csv",
    "partwise predict votes.partwise votes.csv -o missing.csv",
)


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
    as_json: Json = False,
    *,
    reading: ReadArguments,
) -> None:
    """Predict missing cells, or what else a sample is likely to have.

    Without `--top`, every missing cell of DATA: the expected count, or the probability of a one. With `--top N`, the N
    features of the highest expectation that a row does not have yet. DATA may be the data of the fit or new rows of the
    same features; the parts stay as they are.
    """
    from partwise.cli.files import check_outputs, check_table_name
    from partwise.cli.predictions import missing_cells, predicted_table, top_cells
    from partwise.contract.model_file import load

    if seen and top is None:
        raise typer.BadParameter("it is for --top N.", param_hint="--seen")
    check_table_name("--output", output)
    check_outputs({"--output": output}, [model, data])
    fitted = load(model)
    fitted.set_params(n_jobs=threads, progress=progress)
    table = reading.read(data)
    cells = missing_cells(fitted, table, row or ()) if top is None else top_cells(fitted, table, row or (), top, seen)
    columns = predicted_table(cells, table, fitted)
    if output is not None:
        from partwise.io import write_columns

        write_columns(output, columns)
    if as_json:
        facts = {"command": "predict", "model": str(model), "data": str(data), "n_cells": len(cells.values)}
        show_json({**facts, **({} if output else columns), "output": None if output is None else str(output)})
        return
    if output is not None:
        show(f"wrote {output}")
        return
    for sample, feature, value in zip(columns["sample"], columns["feature"], columns["expected"], strict=True):
        show_cells(sample, feature, f"{value:.6g}")
