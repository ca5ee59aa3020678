"""``partwise report``: a page about a fitted model."""

from __future__ import annotations

from pathlib import Path

import typer

from partwise.cli.files import check_outputs, image_shape, sample_labels
from partwise.cli.models import opened_model
from partwise.cli.options import ImageShape, ModelFile, ProgressBar, Seed, Threads
from partwise.cli.output import Outcome
from partwise.cli.reading import ReadArguments

EXAMPLES = (
    "partwise report topics.partwise counts.npz -o report.html",
    "partwise report topics.partwise -o parts.html --title 'Parts alone'",
)


def command(
    model: ModelFile,
    data: Path | None = typer.Argument(
        None, metavar="[DATA]", help="Samples x features to show the model on, best those of the fit."
    ),
    *,
    output: Path = typer.Option(..., "--output", "-o", metavar="FILE", help="The page to write, .html."),
    title: str | None = typer.Option(None, "--title", metavar="TEXT", help="Title of the page."),
    groups: Path | None = typer.Option(
        None,
        "--groups",
        metavar="COLUMN|FILE",
        help="The group of each sample: an obs column of DATA, or a table (.csv, .tsv) of samples and their groups.",
    ),
    shape: ImageShape = None,
    seed: Seed = 0,
    threads: Threads = 1,
    progress: ProgressBar = None,
    reading: ReadArguments,
) -> Outcome:
    """Write an interactive page about a model.

    Its parts, what samples are made of, how well it fits, how to cite it. The page is one file that loads nothing, and
    can be sent to others. Parts have their features by relevance, with a slider; samples can be searched and sorted.
    Without DATA it shows parts and the trace.
    """
    from partwise.reporting import report

    pixels = image_shape(shape)
    if output.suffix.lower() not in (".html", ".htm"):
        raise typer.BadParameter(f"{output} does not end in .html.", param_hint="--output")
    if groups is not None and data is None:
        raise typer.BadParameter("groups are those of samples: give DATA as well.", param_hint="--groups")
    if data is None:
        reading.refuse("it says how to read DATA: give DATA as well.")
    check_outputs({"--output": output}, [model, data, groups])
    fitted = opened_model(model, threads, progress)
    table = None if data is None else reading.read(data)
    belongs = sample_labels(groups, table)
    page = report(
        fitted,
        table,
        output=output,
        title=model.stem if title is None else title,
        groups=belongs,
        image_shape=pixels,
        random_state=seed,
    )
    return Outcome({"model": model, "data": data, "output": output, "bytes": len(page.encode())}, written=[output])
