"""``partwise demo``: parts of pictures and of texts, from data that every installation has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from partwise.cli.options import Json, ProgressBar, Seed, Threads
from partwise.cli.output import say, show, show_json

EXAMPLES = ("partwise demo",)


def command(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the picture; made if it is not there.")
    ] = Path("out"),
    seed: Seed = 0,
    threads: Threads = 1,
    progress: ProgressBar = None,
    as_json: Json = False,
) -> None:
    """Try it out on handwritten digits and on texts.

    Finds the strokes of digits and the topics of Python's help, prints them in words, and draws them to demo.png. The
    digits come with scikit-learn, the help texts with Python; nothing is downloaded.
    """
    import time

    from partwise.cli.demonstration import fit_digits, fit_topics

    start = time.perf_counter()
    output.mkdir(parents=True, exist_ok=True)
    pictures, topics = (fit(seed, n_jobs=threads, progress=progress) for fit in (fit_digits, fit_topics))
    picture = output / "demo.png"
    drawn = _draw(pictures, topics, picture)
    seconds = time.perf_counter() - start
    if as_json:
        examples = [example.facts() for example in (pictures, topics)]
        written = [str(picture)] if drawn else []
        show_json({"command": "demo", "examples": examples, "seconds": seconds, "written": written})
        return
    for example in (pictures, topics):
        for line in example.lines():
            show(line)
        show("")
    if drawn:
        show(f"wrote {picture}")
    else:
        say('there is no picture: matplotlib is not installed; pip install "partwise[plot]" brings it.')
    show("the same for your own data: partwise fit DATA -o MODEL -k 10")


def _draw(pictures: Any, topics: Any, path: Path) -> bool:
    """Draw the picture; False if matplotlib is not installed, which is no reason to fail."""
    from partwise.cli.demonstration import draw
    from partwise.errors import MissingDependencyError

    try:
        draw(pictures, topics, path)
    except MissingDependencyError:
        return False
    return True
