"""``partwise plot``: pictures of a fitted model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from partwise.cli.files import batch_argument, check_outputs, image_shape, read_groups, sample_labels
from partwise.cli.models import read_parts
from partwise.cli.options import Batch, ImageShape, ModelFile, Reference, RunArguments, Seed, option, to_write
from partwise.cli.output import Outcome, refuse_if
from partwise.cli.reading import ReadArguments

if TYPE_CHECKING:
    from partwise.io import Table

EXAMPLES = (
    "partwise plot topics.partwise -o parts.png",
    "partwise plot topics.partwise -o words.png --kind features --top 8",
    "partwise plot topics.partwise -o fit.svg --kind trace",
    "partwise plot topics.partwise counts.npz -o samples.png --kind structure",
)


_Parts = Literal["dictionary", "features", "signatures", "signature-fit", "images", "trace", "norms"]
PictureKind = Literal[_Parts, "structure", "checks", "reconstruction"]
_OF_DATA = ("structure", "checks", "reconstruction", "signature-fit")
# Features whose names a picture can show.
_MOST_FEATURES = 120
# The kinds of picture that take each option; all other options are for structure plots.
_KINDS = {
    "--groups": ("dictionary", "structure"),
    "--image-shape": ("images", "reconstruction"),
    "--reference": ("signatures",),
}


def command(
    file: ModelFile,
    data: Path | None = typer.Argument(
        None, metavar="DATA", help="Samples x features, for pictures of data; with signatures it adds their counts."
    ),
    *,
    output: Path = to_write("The picture to write: .png, .pdf or .svg.", "PICTURE", ...),
    kind: PictureKind = option(
        "What to draw. Of the model: dictionary (features x parts), features (the largest of each part), "
        "signatures, images, trace and norms (how the fit went). With DATA: structure (samples as stacked bars), "
        "signature-fit (counts, reconstruction and residual of samples), checks, reconstruction.",
        "dictionary",
    ),
    groups: Path | None = option(
        "Sort by group: a table (.csv, .tsv) of features (for structure: samples) and groups, or an obs column.",
        metavar="COLUMN|FILE",
    ),
    top: int = option("Features shown of each part.", 10, min=1),
    reference: Reference = None,
    counts: bool = option("Draw counts of samples, not shares, for structure.", False),
    batch: Batch = None,
    shape: ImageShape = None,
    seed: Seed = 0,
    run: RunArguments,
    reading: ReadArguments,
) -> Outcome:
    """Draw the parts of a model, its fit, or its samples.

    Nearly empty parts are left out. `--groups` sorts features (or samples) by group.
    """
    from partwise.plotting import plot_structure, save_figure

    refuse_if(kind in _OF_DATA and data is None, "--kind", f"{kind} needs data: give DATA as well.")
    refuse_if(kind == "images" and shape is None, "--image-shape", "images need their height and width.")
    given = {"--groups": groups, "--batch": batch, "--image-shape": shape, "--reference": reference, "--counts": counts}
    for name, value in given.items():
        kinds = _KINDS.get(name, ("structure",))
        refuse_if(value and kind not in kinds, name, f"it is for {' and '.join(kinds)}, not for {kind}.")
    if data is None:
        reading.refuse("it says how to read DATA: give DATA as well.")
    pixels = image_shape(shape)
    check_outputs({"--output": output}, [file, data, groups, reference], pictures=["--output"])
    model = run.opened(file)
    table = None if data is None else reading.read(data)
    if kind == "signatures":
        figure = _signatures(model, table, None if reference is None else read_parts(reference))
    elif table is None:
        figure = _parts(kind, model, groups, top, pixels)
    elif kind == "structure":
        activations = model.transform(table, **batch_argument(model, batch, table))
        named, grouped = table.row_labels, sample_labels(groups, table)
        figure = plot_structure(activations, model=model, groups=grouped, names=named, counts=counts).figure
    else:
        figure = _of_data(kind, model, table, pixels, seed)
    save_figure(figure, output)
    return Outcome({"model": file, "kind": kind, "output": output}, written=[output])


def _parts(kind: PictureKind, model: Any, groups: Path | None, top: int, pixels: tuple[int, int] | None) -> Any:
    """A picture of the model alone."""
    from partwise import plotting

    if kind == "trace":
        return plotting.plot_trace(model, column=_traced(model)).figure
    if kind == "norms":
        return plotting.plot_column_norms(model).figure
    parts = _active(model)
    if kind == "features":
        return plotting.plot_top_features(model, n=top, parts=parts)
    if kind == "images" and pixels is not None:
        return plotting.plot_parts_images(model, pixels, parts=parts)
    belongs = None if groups is None else read_groups(groups, model.known_features, "feature")
    # Probabilities keep the scale from 0 to 1. Shares of counts are small, so they get a scale of their own.
    greys: Any = {"top": float(model.components_.max()) or 1.0, "power": 0.5}
    if model.declares.data == "bits":
        greys = {}
    if groups is None and model.n_features_in_ > _MOST_FEATURES:
        # Thousands of rows would be unreadable, so draw only the largest features of each part.
        shown, importance = parts or list(range(model.n_components_)), abs(model.feature_importance())
        each = max(3, _MOST_FEATURES // len(shown))
        greys["features"] = sorted({int(f) for k in shown for f in (-importance[k]).argsort(kind="stable")[:each]})
    return plotting.plot_dictionary(model, groups=belongs, order="parts", parts=parts, **greys).figure


def _active(model: Any) -> list[int] | None:
    """Parts that hold something, largest first; None for all."""
    active = set(model.active_components_.tolist())
    return [k for k in (-model.part_weights_).argsort(kind="stable").tolist() if k in active] or None


def _signatures(model: Any, table: Table | None, reference: Table | None) -> Any:
    """Signatures that explain any counts, largest first; with data, also the counts that each explains."""
    from partwise.plotting import plot_signatures

    if table is None:
        return plot_signatures(model, parts=_active(model), reference=reference)
    totals = model.transform(table).sum(axis=0) * model.components_.sum(axis=1)
    parts = [int(k) for k in (-totals).argsort(kind="stable") if totals[k] >= 0.5] or None
    return plot_signatures(model, parts=parts, reference=reference, totals=totals)


def _of_data(kind: PictureKind, model: Any, table: Table, shape: tuple[int, int] | None, seed: int) -> Any:
    """A picture of a model and data."""
    from partwise import plotting

    if kind == "checks":
        return plotting.plot_predictive_checks(model, table, random_state=seed)
    if kind == "reconstruction":
        return plotting.plot_reconstruction(model, table, shape=shape)
    refuse_if(kind != "signature-fit", "--kind", f"{kind} shows the model alone: drop DATA.")
    return plotting.plot_signature_fit(model, table)


def _traced(model: Any) -> str:
    """The objective, or the quantities that a sampler traces."""
    for column in ("objective", "log_joint", "change"):
        if column in model.trace_ and len(model.trace_.evaluated(column)[0]):
            return column
    return "objective"
