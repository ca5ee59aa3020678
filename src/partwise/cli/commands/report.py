"""``partwise report``: a page about a fitted model."""

from pathlib import Path

import typer

from partwise.cli.files import batch_argument, check_outputs, image_shape, sample_labels
from partwise.cli.models import read_parts
from partwise.cli.options import Batch, ImageShape, ModelFile, Reference, RunArguments, Seed, option, to_write
from partwise.cli.output import Outcome, refuse_if
from partwise.cli.reading import ReadArguments

EXAMPLES = (
    "partwise report topics.partwise counts.npz -o report.html",
    "partwise report topics.partwise -o parts.html --title 'Parts alone' --reference topics.partwise",
)


def command(
    model: ModelFile,
    data: Path | None = typer.Argument(None, metavar="DATA", help="Data to show, preferably those of the fit."),
    *,
    output: Path = to_write("The page to write, .html.", default=...),
    title: str | None = option("Title of the page.", metavar="TEXT"),
    groups: Path | None = option(
        "The group of each sample: an obs column of DATA, or a table (.csv, .tsv) of samples and their groups.",
        metavar="COLUMN|FILE",
    ),
    names: Path | None = option("Names of parts: a table with the columns part and name (.csv, .tsv)."),
    feature_names: Path | None = option("Names of the features, one per line, where the model has none."),
    reference: Reference = None,
    batch: Batch = None,
    shape: ImageShape = None,
    seed: Seed = 0,
    run: RunArguments,
    reading: ReadArguments,
) -> Outcome:
    """Write an interactive page about a model.

    The page has a map of the parts, their features and typical samples, parts by group and over time, samples to
    search, diagnostics, and how to cite the model. Groups, times and texts come from `partwise count`. The page is one
    file that loads nothing from the network. Without DATA it shows the parts and the trace.
    """
    from partwise.io.source import bytes_allowed
    from partwise.io.table import read_label_file
    from partwise.reporting import report

    pixels = image_shape(shape)
    refuse_if(output.suffix.lower() not in (".html", ".htm"), "--output", f"{output} does not end in .html.")
    refuse_if(groups is not None and data is None, "--groups", "groups belong to samples: give DATA as well.")
    refuse_if(batch is not None and data is None, "--batch", "batches belong to samples: give DATA as well.")
    if data is None:
        reading.refuse("it says how to read DATA: give DATA as well.")
    check_outputs({"--output": output}, [model, data, groups, names, feature_names, reference])
    fitted = run.opened(model)
    if names is not None:
        fitted.name_parts(names)
    table = None if data is None else reading.read(data)
    belongs = sample_labels(groups, table)
    page = report(
        fitted,
        table,
        output=output,
        title=model.stem if title is None else title,
        groups=belongs,
        feature_names=None if feature_names is None else read_label_file(feature_names, bytes_allowed()),
        image_shape=pixels,
        reference=None if reference is None else read_parts(reference),
        **batch_argument(fitted, batch, table),
        random_state=seed,
    )
    return Outcome({"model": model, "data": data, "output": output, "bytes": len(page.encode())}, written=[output])
