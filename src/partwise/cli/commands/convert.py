"""``partwise convert``: any readable matrix to another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partwise.cli.options import DataFile, EngineName, Json, Scheduler, Threads, chosen_engine
from partwise.cli.output import in_options, show, show_json
from partwise.cli.reading import ReadArguments, cell_counts, format_names

EXAMPLES = (
    "partwise convert counts.npz counts.mtx.gz",
    "partwise convert catalogue.tsv catalogue.npz --transpose",
    "partwise convert counts.npz counts.csv --write-format long",
    "partwise convert parts/ counts.rows",
)


def command(
    data: DataFile,
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="The file to write; its name says the format.")],
    write_format: Annotated[
        str | None,
        typer.Option(
            "--write-format",
            metavar="NAME",
            autocompletion=format_names,
            help="Format to write, where the name does not say it; long for triples.",
        ),
    ] = None,
    engine: EngineName = None,
    scheduler: Scheduler = None,
    threads: Threads = 1,
    as_json: Json = False,
    *,
    reading: ReadArguments,
) -> None:
    """Write a matrix in another format.

    Any file that can be read, to .npz, .npy, .mtx (.gz), .h5ad, .csv or .tsv (.gz, wide or long), or .parquet; or,
    piece by piece, a folder of parts or an .h5ad file larger than memory, to a folder NAME.rows that `fit` reads.
    With `--engine dask`, workers read, check and write the pieces.
    """
    from partwise.cli.files import check_outputs
    from partwise.io import write_matrix

    where = chosen_engine(engine, scheduler)
    if output.suffix == ".rows":
        if write_format is not None:
            raise typer.BadParameter(f"{output} is to be a folder of rows: drop it.", param_hint="--write-format")
        _to_rows(data, output, reading, where, threads, as_json)
        return
    if where is not None:
        raise typer.BadParameter("workers write folders NAME.rows alone: drop it.", param_hint="--engine")
    _check_format(output, write_format)
    check_outputs({"OUTPUT": output}, [data])
    table = reading.read(data)
    written = write_matrix(output, table, format=write_format)
    if as_json:
        nonzeros, missing = cell_counts(table)
        n_samples, n_features = table.shape
        show_json(
            {
                "command": "convert",
                "data": str(data),
                "n_samples": n_samples,
                "n_features": n_features,
                "n_nonzeros": nonzeros,
                "n_missing": missing,
                "written": [str(path) for path in written],
            }
        )
        return
    for path in written:
        show(f"wrote {path}")


def _to_rows(data: Path, output: Path, reading: ReadArguments, engine: str | None, threads: int, as_json: bool) -> None:
    from partwise import on_disk

    mapped = on_disk(data, output, engine=engine, n_jobs=threads, **reading.given())
    n_samples, n_features = mapped.shape
    if as_json:
        shape = {"n_samples": n_samples, "n_features": n_features, "n_nonzeros": mapped.nnz}
        facts = {**shape, "n_missing": mapped.n_missing, "written": [str(output)]}
        show_json({"command": "convert", "data": str(data), **facts})
        return
    show(f"wrote {output}: {n_samples} samples x {n_features} features, {mapped.nnz} nonzeros")


def _check_format(output: Path, name: str | None) -> None:
    from partwise.errors import InvalidInputError
    from partwise.io.formats import find_format

    try:
        find_format(output, name)
    except InvalidInputError as error:
        raise typer.BadParameter(in_options(str(error), {"format": "--write-format"}), param_hint="OUTPUT") from error
