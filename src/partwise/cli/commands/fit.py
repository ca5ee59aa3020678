"""``partwise fit``: fit a model to data and write it to a file."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partwise._registry import model_names
from partwise.cli.models import (
    build_estimator,
    find_model,
    fixed_settings,
    option_name,
)
from partwise.cli.options import DataFile, EngineName, Json, ProgressBar, Scheduler, Seed, Threads, chosen_engine
from partwise.cli.output import fail, say, show, show_json
from partwise.cli.reading import ReadArguments, cell_counts

if TYPE_CHECKING:
    from partwise.io import Table
    from partwise.storage.csr_folder import MappedCounts

EXAMPLES = (
    "partwise fit counts.npz -o topics.partwise --components 10 --seed 1",
    "partwise fit counts.npz -o topics.partwise -k 10 --activations activations.csv --parts parts.csv",
    "partwise fit counts.npz -o topics.partwise -k 10 --checkpoint fit.checkpoint --resume",
    "partwise fit counts.npz -o topics.partwise -k 10 --engine dask --threads 2",
    "partwise fit catalogue.tsv --transpose -o refit.partwise --components-file signatures.tsv",
)

_CHECKPOINT_SECONDS = 60.0


def command(
    data: DataFile,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="The model file to write.")],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="NAME",
            autocompletion=lambda: list(model_names()),
            help=f"Which model to fit: {', '.join(sorted(model_names()))}.",
        ),
    ] = "poisson",
    components: Annotated[
        int | None,
        typer.Option(
            "--components",
            "-k",
            metavar="K",
            min=1,
            help="Number of parts; by default that of the model (poisson: 10).",
        ),
    ] = None,
    inference: Annotated[
        str | None,
        typer.Option(
            "--inference", metavar="NAME", help="Algorithm, for poisson: coordinate (fast) or multiplicative."
        ),
    ] = None,
    init: Annotated[
        str | None, typer.Option("--init", metavar="NAME", help="Start, for poisson: random or nndsvd.")
    ] = None,
    max_iter: Annotated[int | None, typer.Option("--max-iter", metavar="N", min=0, help="Most iterations.")] = None,
    tol: Annotated[
        float | None,
        typer.Option("--tol", metavar="X", min=0.0, help="Stop at less gain per count and iteration than this."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other parameter of the model; may be repeated."),
    ] = None,
    components_file: Annotated[
        Path | None,
        typer.Option(
            "--components-file",
            metavar="FILE",
            help="Keep these parts and fit only activations: a table of features x parts, or a model file.",
        ),
    ] = None,
    activations: Annotated[
        Path | None, typer.Option("--activations", metavar="FILE", help="Write the table of samples x parts.")
    ] = None,
    parts: Annotated[
        Path | None, typer.Option("--parts", metavar="FILE", help="Write the table of features x parts.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", metavar="FILE", help="Write the running fit here now and then.")
    ] = None,
    checkpoint_every: Annotated[
        float, typer.Option("--checkpoint-every", metavar="SECONDS", min=0.0, help="How often.")
    ] = _CHECKPOINT_SECONDS,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint if it is there: same bits as without a stop.")
    ] = False,
    engine: EngineName = None,
    scheduler: Scheduler = None,
    seed: Seed = 0,
    threads: Threads = 1,
    progress: ProgressBar = None,
    as_json: Json = False,
    *,
    reading: ReadArguments,
) -> None:
    """Fit a model to data, and write it to a file.

    `transform` and `info` read that file. Tables are written as .csv, .tsv (.gz) or .parquet, by name. Ctrl-C ends
    the fit after the iteration at hand, writes the model so far, and exits with 1.
    """
    from partwise.cli.files import check_outputs, check_table_name

    idle = {"--resume": resume, "--checkpoint-every": checkpoint_every != _CHECKPOINT_SECONDS}
    for option, given in idle.items():
        if given and checkpoint is None:
            raise typer.BadParameter("it needs --checkpoint FILE.", param_hint=option)
    cls = find_model(model)
    options = {
        "n_components": components,
        "inference": inference,
        "init": init,
        "max_iter": max_iter,
        "tol": tol,
        "random_state": seed,
        "n_jobs": threads,
        "engine": chosen_engine(engine, scheduler),
        "progress": progress,
        "checkpoint": None if checkpoint is None else _checkpoint(checkpoint, checkpoint_every),
        "resume": resume or None,
        **fixed_settings(model),
    }
    if components_file is not None:
        _check_refit(cls, options)
    estimator = build_estimator(cls, options, settings or ())
    for option, path in (("--activations", activations), ("--parts", parts)):
        check_table_name(option, path)
    outputs = {"--output": output, "--activations": activations, "--parts": parts, "--checkpoint": checkpoint}
    check_outputs(outputs, [data, components_file])
    table = reading.open(data)
    if resume and checkpoint is not None and not checkpoint.exists():
        say(f"there is no checkpoint {checkpoint} yet: starting anew")
    start = time.perf_counter()
    fitted = _fit(estimator, table) if components_file is None else _refit(estimator, table, components_file)
    seconds = time.perf_counter() - start
    interrupted = fitted.status_.code == "interrupted"
    fitted.save(output)
    tables = {"--parts": parts, "--activations": None if interrupted else activations}
    _write_tables(tables, fitted, table)
    written = [path for path in (output, *tables.values()) if path is not None]
    if as_json:
        show_json({"command": "fit", **_facts(fitted, table, seconds), "written": [str(path) for path in written]})
    else:
        _show(fitted, seconds, written)
    if interrupted:
        fail(_interrupted_sentence(fitted.n_iter_, output, checkpoint, activations))


def _checkpoint(path: Path, seconds: float) -> Any:
    from partwise import Checkpoint

    return Checkpoint(path, seconds=seconds)


def _check_refit(cls: Any, options: dict[str, Any]) -> None:
    if not cls.declares.given_parts:
        raise typer.BadParameter(f"{cls.__name__} cannot take given parts.", param_hint="--components-file")
    idle = ("n_components", "inference", "init", "max_iter", "tol", "checkpoint")
    for name in idle:
        if options[name] is not None:
            raise typer.BadParameter(
                "with --components-file there are no parts to fit: drop it.", param_hint=option_name(name)
            )


def _fit(estimator: Any, table: Table | MappedCounts) -> Any:
    from partwise.errors import InterruptedFitWarning

    with warnings.catch_warnings():
        # Said at the end, with the name of the file.
        warnings.simplefilter("ignore", InterruptedFitWarning)
        return estimator.fit(table)


def _refit(estimator: Any, table: Table | MappedCounts, path: Path) -> Any:
    from partwise.cli.models import in_order_of, read_parts

    given = read_parts(path)
    components = in_order_of(given, table, path)
    parameters = {name: value for name, value in estimator.get_params(deep=False).items() if name != "n_components"}
    names = table.column_labels if table.column_labels is not None else given.feature_names
    return type(estimator).from_components(
        components, feature_names=names, component_names=given.part_names, **parameters
    )


def _write_tables(tables: dict[str, Path | None], model: Any, table: Table | MappedCounts) -> None:
    from partwise.cli.files import part_names, write_activations, write_parts

    columns = part_names(model)
    parts, activations = tables["--parts"], tables["--activations"]
    if parts is not None:
        write_parts(parts, model.components_, model.known_features, columns)
    if activations is not None:
        # Those of the fit, where only the fit knows what to make of missing cells.
        of_fit = model.declares.missing == "fit" and cell_counts(table)[1] > 0
        write_activations(activations, model.kept_activations if of_fit else model.transform(table), table, columns)


def _facts(model: Any, table: Table | MappedCounts, seconds: float) -> dict[str, Any]:
    from partwise.cli.describe import model_facts

    nonzeros, missing = cell_counts(table)
    n_samples, n_features = table.shape
    read = {
        "source": table.source,
        "n_samples": n_samples,
        "n_features": n_features,
        "n_nonzeros": nonzeros,
        "n_missing": missing,
    }
    return {"data": read, **model_facts(model), "seconds": seconds}


def _show(model: Any, seconds: float, written: list[Path]) -> None:
    from partwise.cli.describe import fit_line, model_facts, part_lines

    show(f"{type(model).__name__}: {model.status_}")
    show(f"{fit_line(model_facts(model))}, {seconds:.1f} s")
    for line in part_lines(model):
        show(line)
    for path in written:
        show(f"wrote {path}")


def _interrupted_sentence(n_iter: int, output: Path, checkpoint: Path | None, activations: Path | None) -> str:
    skipped = "" if activations is None else f" ({activations} was not written)"
    remedy = (
        "run it again to finish it, with --checkpoint FILE and --resume if it takes long"
        if checkpoint is None
        else "run the same command with --resume to finish it"
    )
    iterations = f"{n_iter} iteration{'' if n_iter == 1 else 's'}"
    return f"interrupted after {iterations}: {output} holds the model so far{skipped}; {remedy}."
