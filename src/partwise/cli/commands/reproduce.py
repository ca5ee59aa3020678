"""``partwise reproduce``: redo a paper's tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from partwise.cli.options import Json
from partwise.cli.output import show, show_json

EXAMPLES = ("partwise reproduce",)


def _names() -> list[str]:
    from partwise.reproduce import available

    return available()


def command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", autocompletion=_names, help="What to redo; without it, what there is."),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for tables and figures.")
    ] = Path("out"),
    quick: Annotated[
        bool, typer.Option("--quick/--full", help="A short version, or the paper's whole protocol.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Redo the tables and figures of a paper.

    Without NAME, list what can be redone.
    """
    from partwise.reproduce import available, find

    names = available()
    if name is None:
        listed = {known: find(known).description for known in names}
        if as_json:
            show_json({"command": "reproduce", "available": listed})
            return
        if not listed:
            show("This version of partwise has no papers to reproduce yet.")
        for known, description in listed.items():
            show(f"{known}  {description}")
        return
    if name not in names:
        known = f"there are {', '.join(names)}" if names else "this version has none yet"
        raise typer.BadParameter(f"there is nothing to reproduce called {name!r}; {known}.", param_hint="NAME")
    folder = output / name
    folder.mkdir(parents=True, exist_ok=True)
    find(name).run(folder, quick)
    if as_json:
        show_json({"command": "reproduce", "name": name, "quick": quick, "output": str(folder)})
    else:
        show(f"wrote {folder}")
