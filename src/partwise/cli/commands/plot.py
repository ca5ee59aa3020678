"""``partwise plot``: pictures of a fitted model."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from partwise.cli.output import say, show_json
from partwise.cli.parameters import Json

EXAMPLES = (
    "partwise plot topics.partwise -o parts.png",
    "partwise plot topics.partwise -o words.png --kind features --top 8",
    "partwise plot topics.partwise -o fit.svg --kind trace",
)


class Kind(StrEnum):
    """What to draw."""

    DICTIONARY = "dictionary"
    FEATURES = "features"
    TRACE = "trace"


def command(
    file: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="PICTURE", help="The picture to write: .png, .pdf or .svg.")
    ],
    kind: Annotated[
        Kind, typer.Option("--kind", help="Features x parts in grey, the largest features of each part, or the fit.")
    ] = Kind.DICTIONARY,
    groups: Annotated[
        Path | None,
        typer.Option(
            "--groups", metavar="FILE", help="A table (.csv, .tsv) with a feature and its group in each line."
        ),
    ] = None,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="Features of each part, for bars.")] = 10,
    as_json: Json = False,
) -> None:
    """Draw the parts of a model, or how its fit went.

    Parts that hold next to nothing are left out. With `--groups` features are sorted by their group.
    """
    from partwise.core.persistence import load
    from partwise.plotting import largest_parts, plot_dictionary, plot_top_features, plot_trace, save_figure

    model = load(file)
    active = set(model.active_components_.tolist())
    parts = [k for k in largest_parts(model) if k in active] or None
    figure: Any
    if kind is Kind.TRACE:
        figure = plot_trace(model, column=_traced(model)).figure
    elif kind is Kind.FEATURES:
        figure = plot_top_features(model, n=top, parts=parts)
    else:
        belongs = None if groups is None else _groups(groups, model)
        figure = plot_dictionary(model, groups=belongs, order="parts", parts=parts).figure
    save_figure(figure, output)
    say(f"wrote {output}")
    if as_json:
        show_json({"command": "plot", "model": str(file), "kind": kind.value, "output": str(output)})


def _traced(model: Any) -> str:
    """The objective, or what a sampler traces."""
    for column in ("objective", "log_joint", "change"):
        if column in model.trace_ and len(model.trace_.evaluated(column)[0]):
            return column
    return "objective"


def _groups(path: Path, model: Any) -> list[str]:
    """The group of each feature, by name."""
    import csv

    from partwise.errors import InvalidInputError

    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise InvalidInputError("--groups needs a model whose features have names; this one has none.")
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines, delimiter="\t" if path.suffix == ".tsv" else ","))
    found = {row[0]: row[1] for row in rows if len(row) > 1}
    absent = [str(name) for name in names if str(name) not in found]
    if absent:
        raise InvalidInputError(f"{path} has no group for feature {absent[0]!r}: give a line 'feature,group' for each.")
    return [found[str(name)] for name in names]
