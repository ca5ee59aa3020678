"""``partwise transform``: activations of data for the parts of a model."""

from pathlib import Path
from typing import Any

from partwise.cli.describe import model_facts
from partwise.cli.files import batch_argument, check_outputs, part_names, write_activations, write_intervals
from partwise.cli.options import Batch, DataFile, ModelFile, RunArguments, option, to_write
from partwise.cli.output import Outcome, refuse_if
from partwise.cli.reading import Opened, ReadArguments

EXAMPLES = (
    "partwise transform topics.partwise new_counts.npz -o activations.csv",
    "partwise transform topics.partwise new_counts.npz -o new.h5ad --errors errors.csv",
    "partwise transform topics.partwise new_counts.npz -o activations.csv --allocations allocations.csv",
)


def command(
    model: ModelFile,
    data: DataFile,
    output: Path = to_write("Table to write: .csv, .tsv (.gz), .parquet or .h5ad.", default=...),
    errors: Path | None = option("Also write standard errors of the activations."),
    intervals: Path | None = option("Write which parts are present, with probabilities and intervals."),
    allocations: Path | None = option(
        "Write the probability that each part made the counts of a cell, one line per cell."
    ),
    batch: Batch = None,
    *,
    run: RunArguments,
    reading: ReadArguments,
) -> Outcome:
    """Find how much of each part of a model is in each sample.

    The table has one line per sample and one column per part. The parts do not change. An .h5ad file gets the
    activations in obsm (X_partwise) and the parts in varm (partwise); if DATA is one, the rest of it is kept.
    """
    from partwise.io import write_columns

    as_anndata = output.suffix.lower() == ".h5ad"
    files = {"output": output, "errors": errors, "intervals": intervals, "allocations": allocations}
    tables = ["--errors", "--intervals", "--allocations", *([] if as_anndata else ["--output"])]
    options = {f"--{name}": path for name, path in files.items()}
    check_outputs(options, [model, None if as_anndata else data], tables=tables)
    fitted = run.opened(model)
    table = reading.open(data)
    activations = fitted.transform(table, **batch_argument(fitted, batch, table))
    parts = part_names(fitted)
    if as_anndata:
        _write_h5ad(output, fitted, table, activations, data if _is_base(data, reading) else None)
    else:
        write_activations(output, activations, table, parts)
    if errors is not None:
        write_activations(errors, fitted.activation_errors(table), table, parts)
    if intervals is not None:
        write_intervals(intervals, _of_counts(fitted, "--intervals").presence(table), table)
    if allocations is not None:
        write_columns(allocations, _of_counts(fitted, "--allocations").allocate(table).table())
    size = {"n_samples": activations.shape[0], "n_components": activations.shape[1]}
    return Outcome({"model": model, "data": data, **size, **files}, written=files.values())


def _is_base(data: Path, reading: ReadArguments) -> bool:
    """Whether results can be added to the data file itself: its rows are the samples that were read."""
    named = reading.format == "h5ad" or (reading.format is None and data.suffix.lower() == ".h5ad")
    return named and not reading.transpose


def _write_h5ad(path: Path, model: Any, table: Opened, activations: Any, base: Path | None) -> None:
    from partwise.contract.features import parts_of_features
    from partwise.io import Table, write_h5ad

    own: dict[str, Any] = {"row_labels": table.row_labels, "column_labels": table.column_labels, "base": base}
    if base is None:
        own["matrix"] = (table if isinstance(table, Table) else table.to_table()).with_nan()
    own["dictionary"] = parts_of_features(model, model.components_, table.column_labels)
    write_h5ad(path, activations=activations, metadata=model_facts(model), **own)


def _of_counts(model: Any, option: str) -> Any:
    """The model, if it is one of counts."""
    from partwise.contract import CountModel

    refuse_if(not isinstance(model, CountModel), option, f"{type(model).__name__} is not a model of counts: drop it.")
    return model
