"""``partwise markers``: which features mark each part of a model."""

from pathlib import Path
from typing import Any, Literal

from partwise.cli.files import batch_argument, check_outputs
from partwise.cli.options import Batch, DataFile, ModelFile, RunArguments, option, to_write
from partwise.cli.output import Outcome, aligned, refuse_if
from partwise.cli.reading import ReadArguments

EXAMPLES = (
    "partwise markers topics.partwise counts.npz",
    "partwise markers topics.partwise counts.npz -o markers.csv --volcano volcano.png",
)


def command(
    model: ModelFile,
    data: DataFile,
    output: Path | None = to_write("Table of parts and features to write: .csv, .tsv or .parquet."),
    volcano: Path | None = option("Picture to draw: .png, .pdf, .svg."),
    versus: Literal["least-extreme", "all"] = option(
        "Compare a part with the other part whose rate is nearest, or with all others together.", "least-extreme"
    ),
    lfsr: float = option("Largest local false sign rate of the markers shown.", 0.05, min=0.0, max=1.0),
    top: int = option("Markers of each part to show.", 10, min=1),
    batch: Batch = None,
    *,
    run: RunArguments,
    reading: ReadArguments,
) -> Outcome:
    """Find the features that mark each part.

    Gives the log2 ratio of a feature's rate in the part to its rate in another part, after adaptive shrinkage, with a
    standard error. The local false sign rate is the probability that the sign is wrong. DATA must be the data of the
    fit.
    """
    from partwise.contract import CountModel
    from partwise.io import write_columns

    files = {"--output": output, "--volcano": volcano}
    check_outputs(files, [model, data], tables=["--output"], pictures=["--volcano"])
    fitted = run.opened(model)
    refuse_if(not isinstance(fitted, CountModel), "MODEL", f"{type(fitted).__name__} is not a model of counts.")
    table = reading.open(data)
    found = fitted.differential(table, versus=versus, **batch_argument(fitted, batch, table))
    if output is not None:
        write_columns(output, found.columns())
    if volcano is not None:
        from partwise.plotting import plot_volcano, save_figure

        picture: Any = plot_volcano(found, lfsr=lfsr)
        save_figure(picture, volcano)
    markers = {name: found.top(k, top, lfsr=lfsr) for k, name in enumerate(found.parts)}
    counts = {name: int(((found.lfsr[k] <= lfsr) & (found.mean[k] > 0)).sum()) for k, name in enumerate(found.parts)}
    lines = aligned([(name, f"{counts[name]:5d}", ", ".join(names)) for name, names in markers.items()])
    about = {"model": model, "data": data, "versus": versus, "lfsr": lfsr}
    heading = f"Markers of each part (local false sign rate at most {lfsr:g}): number, largest log2 fold changes first:"
    return Outcome({**about, "n_markers": counts, "markers": markers}, [heading, *lines], [output, volcano])
