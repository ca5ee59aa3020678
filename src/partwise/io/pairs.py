"""Small tables of two columns, such as parts and their names."""

import csv
import os
from pathlib import Path

from partwise.io.source import bad_file, bytes_allowed, check_regular, text_lines
from partwise.io.writing_tables import original


def csv_rows(path: Path, remedy: str) -> list[list[str]]:
    """The lines of a small .csv or .tsv file that are not empty, as cells; ``remedy`` is for messages."""
    check_regular(path)
    delimiter = "\t" if path.name.lower().endswith((".tsv", ".tsv.gz")) else ","
    try:
        return [row for row in csv.reader(text_lines(path, bytes_allowed()), delimiter=delimiter) if row]
    except csv.Error as error:
        raise bad_file(path, f"it is not valid CSV ({error})", remedy) from error


def read_pairs(file: str | os.PathLike[str], first: str, second: str) -> list[tuple[str, str]]:
    """The cells of two columns of a .csv or .tsv file, line by line.

    Parameters
    ----------
    file
        Its first line names the columns; the file may have other columns.
    first, second
        Names of the columns.
    """
    path = Path(file).expanduser()
    rows = csv_rows(path, f"write the columns {first} and {second}")
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    if first not in header or second not in header:
        raise bad_file(path, f"it has no columns '{first}' and '{second}'", "name the columns in the first line")
    places = header.index(first), header.index(second)
    for number, row in enumerate(rows[1:], start=2):
        if len(row) <= max(places) or not (row[places[0]] and row[places[1]]):
            raise bad_file(path, f"line {number} lacks a {first} or a {second}", "fill both columns in each line")
    return [(original(row[places[0]]), original(row[places[1]])) for row in rows[1:]]
