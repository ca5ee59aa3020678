"""``partwise reproduce``: redo a paper's tables and figures."""

from pathlib import Path

import typer

from partwise.cli.options import option, to_write
from partwise.cli.output import Outcome, aligned, refuse_if

EXAMPLES = ("partwise reproduce",)


def _names() -> list[str]:
    from partwise.reproduce import available

    return available()


def command(
    name: str | None = typer.Argument(
        None, metavar="NAME", autocompletion=_names, help="The paper; without it, papers are listed."
    ),
    output: Path = to_write("Folder for tables and figures.", "DIR", Path("out")),
    quick: bool = option("A short version, or the paper's whole protocol.", True, "--quick/--full"),
) -> Outcome:
    """Repeat the tables and figures of a paper.

    Without NAME, list the papers.
    """
    from partwise.reproduce import available, find

    if name is None:
        listed = {known: find(known).description for known in available()}
        return Outcome({"available": listed}, aligned(list(listed.items())))
    refuse_if(name not in available(), "NAME", f"{name!r} is not one of the papers: {', '.join(available())}.")
    folder = output / name
    folder.mkdir(parents=True, exist_ok=True)
    find(name).run(folder, quick)
    return Outcome({"name": name, "quick": quick, "output": folder}, written=[folder])
