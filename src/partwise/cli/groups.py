"""Files that say which group each feature or sample belongs to, and sizes of pictures."""

from __future__ import annotations

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
    from partwise.io.limits import bytes_allowed
    from partwise.io.source import bad_file, check_regular, text_lines

    if names is None:
        raise InvalidInputError(f"--groups needs {what}s that have names; these have none.")
    check_regular(path)
    delimiter = "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ","
    try:
        rows = csv.reader(text_lines(path, bytes_allowed()), delimiter=delimiter)
        found = {row[0]: row[1] for row in rows if len(row) > 1}
    except csv.Error as error:
        raise bad_file(path, str(error), f"give a line '{what},group' for each {what}") from error
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
