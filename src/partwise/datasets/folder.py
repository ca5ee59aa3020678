"""The folder of published data, named by the environment variable PARTWISE_DATA. Nothing is downloaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from partwise.errors import FileFormatError, InvalidInputError

DATA_VARIABLE = "PARTWISE_DATA"

Entry = TypeVar("Entry")


def data_folder() -> Path:
    """The folder of published data: what the environment variable ``PARTWISE_DATA`` names.

    Returns
    -------
    Path
        An existing folder.

    Raises
    ------
    InvalidInputError
        The variable is not set, or names no folder.

    Examples
    --------
    >>> from partwise.datasets import data_folder
    >>> data_folder().is_dir()
    True
    """
    name = os.environ.get(DATA_VARIABLE, "").strip()
    if not name:
        raise InvalidInputError(
            f"the environment variable {DATA_VARIABLE} is not set; set it to the folder that holds the data "
            "(in it: counts/, nbmf/, gap/)."
        )
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise InvalidInputError(f"{DATA_VARIABLE} names {folder}, which is not a folder; correct it.")
    return folder


def lookup(catalogue: Mapping[str, Entry], name: str) -> Entry:
    """The entry of a data set, or an error that lists the known names."""
    if name not in catalogue:
        raise InvalidInputError(f"there is no data set called {name!r}; there are {', '.join(catalogue)}.")
    return catalogue[name]


def locate(relative: str, origin: str) -> Path:
    """The file of a data set, or one sentence that says where to get it by hand."""
    by_hand = f"download it from {origin}, and write it as {relative} in that folder"
    try:
        path = data_folder() / relative
    except InvalidInputError as error:
        raise InvalidInputError(f"{str(error).removesuffix('.')}; for {relative}, {by_hand}.") from None
    if not path.is_file():
        raise FileNotFoundError(f"there is no {relative} in the folder {path.parents[1]}; {by_hand}.")
    return path


def check_documented(path: Path, what: str, found: object, documented: object) -> None:
    """Refuse a file whose sizes or totals are not those that are documented."""
    if documented is not None and found != documented:
        raise FileFormatError(
            f"{path} has {what} {found}, and the published data have {documented}: it is another version or damaged; "
            "fetch it again."
        )
