"""``partwise compare``: models and numbers of parts on one scale."""

from __future__ import annotations

import re
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partwise._registry import compared_names
from partwise.cli.options import DataFile, EngineName, Json, ProgressBar, Scheduler, Seed, Threads, chosen_engine
from partwise.cli.output import fail, say, show, show_json
from partwise.cli.reading import ReadArguments

if TYPE_CHECKING:
    from partwise.selection import Comparison

EXAMPLES = (
    "partwise compare counts.npz --ranks 1-5 --models poisson,allocation -o comparison --save best.partwise",
    "partwise compare counts.npz --ranks 2,4 --models poisson --model poisson --rank 4 --save four.partwise",
    "partwise compare counts.npz --ranks 1-5 --models poisson -o on_workers --engine dask --threads 2",
)

# A range of more is a slip of the finger, not a plan.
_MOST_RANKS = 1000


class Kind(StrEnum):
    """What the data are."""

    counts = "counts"
    bits = "bits"


def _names() -> list[str]:
    """Models by name; the three of bits take part one by one."""
    return compared_names()


def _name_lists(incomplete: str) -> list[str]:
    """Lists of names that go on from what was typed."""
    before, comma, _ = incomplete.rpartition(",")
    return [before + comma + name for name in _names() if name not in before.split(",")]


def command(
    data: DataFile,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Folder for fits.csv, a line a fit; a run that was cut off goes on."
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="MODEL", help="Fit the choice to all data, and write it to this model file."),
    ] = None,
    table: Annotated[
        Path | None, typer.Option("--table", metavar="FILE", help="Write all candidates to .csv, .tsv or .parquet.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="PICTURE", help="Draw scores against numbers of parts: .png, .pdf or .svg."),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(
            "--models",
            metavar="NAME,...",
            autocompletion=_name_lists,
            help="Models to compare; by default all of the kind.",
        ),
    ] = None,
    ranks: Annotated[
        str | None,
        typer.Option(
            "--ranks", metavar="K,K-K,...", help="Numbers of parts, such as 1-8 or 5,10,20; by default up from 1."
        ),
    ] = None,
    restarts: Annotated[
        int, typer.Option("--restarts", metavar="N", min=1, help="Fits of each candidate that is not ruled out.")
    ] = 3,
    kind: Annotated[
        Kind | None, typer.Option("--kind", help="What the data are; by default bits if all are zeros and ones.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", autocompletion=_names, help="Overrule the recommended model."),
    ] = None,
    rank: Annotated[
        int | None, typer.Option("--rank", metavar="K", min=1, help="Overrule the recommended number of parts.")
    ] = None,
    engine: EngineName = None,
    scheduler: Scheduler = None,
    seed: Seed = 0,
    threads: Threads = 1,
    progress: ProgressBar = None,
    as_json: Json = False,
    *,
    reading: ReadArguments,
) -> None:
    """Say which model suits the data, and with how many parts.

    Candidates are fitted to four fifths of the tokens (of bits: cells) and scored on the rest, with several restarts
    and paired standard errors. One sentence says which to take, and how sure that is. `--threads` fits run at a
    time; with `--engine dask` each is a task of a worker. `partwise report` shows the model that `--save` wrote.
    """
    from partwise.cli.comparison import comparison_facts, comparison_lines, write_candidates
    from partwise.cli.files import check_outputs, check_picture_name, check_table_name
    from partwise.selection import compare

    check_table_name("--table", table)
    check_picture_name("--plot", plot)
    where = chosen_engine(engine, scheduler)
    check_outputs({"--save": save, "--table": table, "--plot": plot}, [data])
    tried = None if ranks is None else _parsed_ranks(ranks)
    named = None if models is None else [name.strip() for name in models.split(",")]
    read = reading.read(data)
    start = time.perf_counter()
    try:
        found = compare(
            read,
            named,
            tried,
            kind=None if kind is None else kind.value,
            n_restarts=restarts,
            random_state=seed,
            n_jobs=threads,
            engine=where,
            output=output,
            progress=progress,
        )
    except KeyboardInterrupt:
        remedy = "give -o DIR to keep fits" if output is None else f"the same command goes on from {output}"
        fail(f"interrupted: {remedy}.")
    seconds = time.perf_counter() - start
    if model is not None or rank is not None:
        found = found.choose(model, rank)
    written: list[Path] = []
    if table is not None:
        write_candidates(table, found)
        written.append(table)
    if plot is not None:
        _draw(found, plot)
        written.append(plot)
    if save is not None:
        found.fit_best(read, n_jobs=threads, engine=where, progress=progress).save(save)
        written.append(save)
    if as_json:
        facts = comparison_facts(found)
        _show_json({**facts, "seconds": seconds}, data, written)
        return
    for line in comparison_lines(found):
        show(line)
    for path in written:
        show(f"wrote {path}")
    say(f"{len(found.fits)} fits in {seconds:.0f} s; to go on:")
    for line in _advised(found, data, reading, save):
        say(f"  {line}")


def _advised(found: Comparison, data: Path, reading: ReadArguments, save: Path | None) -> list[str]:
    """Command lines to go on with: other numbers of parts, a fit of the choice or a report, a model that has parts."""
    from partwise.cli.comparison import fit_command, further_command, report_command

    further = further_command(found, data, reading)
    last = fit_command(found, data, reading) if save is None else report_command(save, data, reading)
    other = "" if found.instead is None else fit_command(found.choose(*found.instead), data, reading)
    return [line for line in (further, last, other) if line]


def _draw(found: Comparison, path: Path) -> None:
    from partwise.plotting import plot_rank_selection, save_figure

    axes: Any = plot_rank_selection(found, ylabel=f"nats a held-out {found.unit}")
    save_figure(axes.figure, path)


def _show_json(facts: dict[str, Any], data: Path, written: list[Path]) -> None:
    show_json({"command": "compare", "data": str(data), **facts, "written": [str(path) for path in written]})


def _parsed_ranks(text: str) -> list[int]:
    """``"1-3,8"`` is 1, 2, 3 and 8."""
    ranks: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"([1-9]\d*)(?:-([1-9]\d*))?", part.strip())
        if found is None:
            raise typer.BadParameter(f"{part!r} is no number of parts, nor a range of them.", param_hint="--ranks")
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last < first + _MOST_RANKS:
            why = "goes down" if last < first else f"has more than {_MOST_RANKS} numbers"
            raise typer.BadParameter(f"the range {part.strip()} {why}.", param_hint="--ranks")
        ranks += range(first, last + 1)
    return ranks
