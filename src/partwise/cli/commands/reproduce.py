"""``partwise reproduce``: redo a paper's tables and figures."""

from __future__ import annotations

from pathlib import Path

import typer

from partwise.cli.options import option
from partwise.cli.output import Outcome

EXAMPLES = ("partwise reproduce",)


def _names() -> list[str]:
    from partwise.reproduce import available

    return available()


def command(
    name: str | None = typer.Argument(
        None, metavar="NAME", autocompletion=_names, help="What to redo; without it, what there is."
    ),
    output: Path = option("Folder for tables and figures.", Path("out"), "--output", "-o", metavar="DIR"),
    quick: bool = option("A short version, or the paper's whole protocol.", True, "--quick/--full"),
) -> Outcome:
    """Repeat the tables and figures of a paper.

    Without NAME, list the papers.
    """
    from partwise.reproduce import available, find

    names = available()
    if name is None:
        listed = {known: find(known).description for known in names}
        lines = [f"{known}  {description}" for known, description in listed.items()]
        return Outcome({"available": listed}, lines or ["This version of partwise has no papers to reproduce yet."])
    if name not in names:
        known = f"there are {', '.join(names)}" if names else "this version has none yet"
        raise typer.BadParameter(f"there is nothing to reproduce called {name!r}; {known}.", param_hint="NAME")
    folder = output / name
    folder.mkdir(parents=True, exist_ok=True)
    find(name).run(folder, quick)
    return Outcome({"name": name, "quick": quick, "output": folder}, written=[folder])
