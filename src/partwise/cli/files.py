"""Files that a command reads and writes: checked before the work starts, and written completely or not at all."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from partwise.cli.output import Outcome, refuse_if
from partwise.cli.reading import Opened

_PICTURES = (".png", ".pdf", ".svg")
_LENGTH_BYTES = 8
Names = Sequence[str]


class _WritableError(Exception):
    """Ends the trial write of `check_outputs`."""


def check_outputs(
    outputs: dict[str, Path | None], inputs: list[Path | None], *, tables: Names = (), pictures: Names = ()
) -> None:
    """Refuse outputs that cannot be written, that repeat, or that would replace an input, before hours of work.

    Parameters
    ----------
    outputs
        Options and the files that they name; None is not written.
    inputs
        Files that are read.
    """
    from partwise.io.atomic import atomic_path

    for option in tables:
        _check_table_name(option, outputs[option])
    for option in pictures:
        _check_picture_name(option, outputs[option])
    wanted = {option: path for option, path in outputs.items() if path is not None}
    taken = {path.resolve(): f"is also the input {path}" for path in inputs if path is not None}
    for option, path in wanted.items():
        place = path.resolve()
        refuse_if(place in taken, option, f"{path} {taken.get(place)}; give another name.")
        taken[place] = f"is also the file of {option}"
        try:
            with atomic_path(path):
                raise _WritableError
        except _WritableError:
            pass


def _check_table_name(option: str, path: Path | None) -> None:
    """Refuse a name from which the format of a table cannot be told."""
    from partwise.errors import InvalidInputError
    from partwise.io.writing_tables import table_suffix

    if path is not None:
        try:
            table_suffix(path)
        except InvalidInputError as error:
            raise typer.BadParameter(str(error), param_hint=option) from error


def _check_picture_name(option: str, path: Path | None) -> None:
    """Refuse a name from which the format of a picture cannot be told, and pictures where matplotlib is missing."""
    if path is None:
        return
    refuse_if(path.suffix.lower() not in _PICTURES, option, f"{path} does not end in {', '.join(_PICTURES)}.")
    from partwise.io.optional import require

    require("matplotlib", "plot", "drawing")


def table_outcome(
    facts: dict[str, Any], columns: dict[str, list[Any]], output: Path | None, *, form: str = ".6g", named: bool = False
) -> Outcome:
    """Write a table to the file that was asked for, or print it: numbers in a form, perhaps below their names."""
    from partwise.io import write_columns

    if output is not None:
        write_columns(output, columns)
        return Outcome({**facts, "output": output}, written=[output])
    rows = zip(*columns.values(), strict=True)
    lines = [tuple(format(cell, form) if isinstance(cell, float) else str(cell) for cell in row) for row in rows]
    return Outcome({**facts, **columns, "output": None}, [tuple(columns), *lines] if named else lines)


def part_names(model: Any) -> list[str]:
    """Names of the parts in tables: those that scikit-learn gives to the model's output columns."""
    return [str(name) for name in model.get_feature_names_out()]


def write_activations(path: Path, activations: Any, table: Opened, parts: list[str]) -> None:
    """Samples x parts as a table."""
    from partwise.io import write_table

    write_table(path, activations, table.row_labels, parts, corner="sample")


def write_intervals(path: Path, found: Any, table: Opened) -> None:
    """Presence, activation and its interval of each sample and part, one line each."""
    from partwise.io import write_columns

    labels = table.row_labels
    write_columns(path, found.table([str(n) for n in range(table.shape[0])] if labels is None else list(labels)))


def sample_labels(given: Path | None, table: Any, option: str = "--groups") -> list[str] | None:
    """The label of each sample: an obs column of the data, or a file; None where the option is not given.

    Parameters
    ----------
    given
        What was typed: the name of a column, or a table with a sample and its label in each line.
    table
        The data.
    option
        What to name in messages.
    """
    from partwise.errors import InvalidInputError
    from partwise.io import Table

    if given is None:
        return None
    columns = table.metadata if isinstance(table, Table) else {}
    if str(given) in columns:
        return [str(label) for label in columns[str(given)]]
    if not given.exists():
        known = f"its obs columns are: {', '.join(columns)}" if columns else f"{table.source} has no obs columns"
        raise InvalidInputError(f"{option} {given} is neither a file nor an obs column of the data; {known}.")
    return read_groups(given, table.row_labels, "sample", option)


def batch_argument(model: Any, given: Path | None, table: Any) -> dict[str, Any]:
    """The argument ``batch`` of ``fit``, ``transform`` and ``score``, from ``--batch``; empty if it was not given."""
    labels = sample_labels(given, table, "--batch")
    if labels is None:
        return {}
    refuse_if(not model.declares.batches, "--batch", f"{type(model).__name__} does not take batches: drop it.")
    return {"batch": labels}


def read_groups(path: Path, names: Any, what: str, option: str = "--groups") -> list[str]:
    """The group of each feature or sample, by its name.

    Parameters
    ----------
    path
        A table (.csv, .tsv) with a name and its group in each line.
    names
        Names to find groups for, or None where there are none.
    what
        ``"feature"`` or ``"sample"``.
    option
        What to name in messages.
    """
    from partwise.errors import InvalidInputError
    from partwise.io.pairs import csv_rows

    if names is None:
        raise InvalidInputError(f"{option} needs {what} names: read the data with --row-labels and --vocabulary.")
    rows = csv_rows(path, f"give a line '{what},group' for each {what}")
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
    whole = height.isdecimal() and width.isdecimal()
    refuse_if(not whole, "--image-shape", f"{text!r} is not of the form HEIGHTxWIDTH, such as 28x28.")
    return int(height), int(width)


def is_safetensors(path: Path) -> bool:
    """Whether a file starts as model files and checkpoints do: a length, then a JSON header of that length.

    Parameters
    ----------
    path
        Any file; False if there is none, or if it is a directory.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(_LENGTH_BYTES + 1)
    except OSError:
        return False
    length = int.from_bytes(start[:_LENGTH_BYTES], "little")
    return len(start) > _LENGTH_BYTES and start[_LENGTH_BYTES:] == b"{" and length <= size - _LENGTH_BYTES
