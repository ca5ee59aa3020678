"""Files that say which group each feature or sample belongs to, and sizes of pictures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer


def read_groups(path: Path, names: Any, what: str) -> list[str]:
    """The group of each feature or sample, by its name.

    Parameters
    ----------
    path
        A table (.csv, .tsv) with a name and its group in each line.
    names
        Names to find groups for, or None where there are none.
    what
        ``"feature"`` or ``"sample"``.
    """
    import csv

    from partwise.errors import InvalidInputError

    if names is None:
        raise InvalidInputError(f"--groups needs {what}s that have names; these have none.")
    with path.open(encoding="utf-8", newline="") as lines:
        rows: Iterable[list[str]] = csv.reader(lines, delimiter="\t" if path.suffix == ".tsv" else ",")
        found = {row[0]: row[1] for row in rows if len(row) > 1}
    absent = [str(name) for name in names if str(name) not in found]
    if absent:
        raise InvalidInputError(f"{path} has no group for {what} {absent[0]!r}: give a line '{what},group' for each.")
    return [found[str(name)] for name in names]


def image_shape(text: str | None) -> tuple[int, int] | None:
    """Height and width from ``HEIGHTxWIDTH``.

    Examples
    --------
    >>> image_shape("8x16")
    (8, 16)
    """
    if text is None:
        return None
    height, _, width = text.lower().partition("x")
    if not (height.isdecimal() and width.isdecimal()):
        raise typer.BadParameter(
            f"{text!r} is not of the form HEIGHTxWIDTH, such as 28x28.", param_hint="--image-shape"
        )
    return int(height), int(width)
