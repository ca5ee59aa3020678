"""``partwise convert``: any readable matrix to another format."""

from pathlib import Path

import typer

from partwise.cli.files import check_outputs
from partwise.cli.options import DataFile, EngineArguments, option, threads_option
from partwise.cli.output import Outcome, in_options, refuse_if
from partwise.cli.reading import ReadArguments, format_names, table_size

EXAMPLES = (
    "partwise convert counts.npz counts.mtx.gz",
    "partwise convert catalogue.tsv catalogue.npz --transpose",
    "partwise convert counts.npz counts.csv --write-format long",
    "partwise convert parts/ counts.rows",
)


def command(
    data: DataFile,
    output: Path = typer.Argument(..., metavar="OUTPUT", help="The file to write; its ending sets the format."),
    write_format: str | None = option(
        "Format to write, if the ending does not set it; long: row, column and value.", autocompletion=format_names
    ),
    *,
    engine: EngineArguments,
    threads: int = threads_option(),
    reading: ReadArguments,
) -> Outcome:
    """Convert a table to another file format.

    Reads any known format and writes .npz, .npy, .mtx (.gz), .h5ad, .csv or .tsv (.gz, wide or long), or .parquet. Data
    larger than memory (an .h5ad file, or a folder of files) become a folder NAME.rows that `fit` reads piece by piece.
    With `--engine dask`, workers read, check and write the pieces.
    """
    where = engine.chosen()
    if output.suffix == ".rows":
        from partwise import on_disk

        refuse_if(write_format is not None, "--write-format", f"{output} becomes a folder of rows: drop it.")
        size = table_size(on_disk(data, output, engine=where, n_jobs=threads, **reading.given()))
        told = "{n_samples} samples x {n_features} features, {n_nonzeros} nonzeros".format(**size)
        return Outcome({"data": data, **size, "written": [output]}, [f"wrote {output}: {told}"])
    from partwise.io import write_matrix

    refuse_if(where is not None, "--engine", "workers can only write folders NAME.rows: drop it.")
    _check_format(output, write_format)
    check_outputs({"OUTPUT": output}, [data])
    table = reading.read(data)
    written = write_matrix(output, table, format=write_format)
    return Outcome({"data": data, **table_size(table), "written": written}, written=written)


def _check_format(output: Path, name: str | None) -> None:
    from partwise.errors import InvalidInputError
    from partwise.io.reading import find_format

    try:
        find_format(output, name)
    except InvalidInputError as error:
        raise typer.BadParameter(in_options(str(error), {"format": "--write-format"}), param_hint="OUTPUT") from error
