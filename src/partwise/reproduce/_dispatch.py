"""From names to modules of this package."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import partwise.reproduce
from partwise.errors import InvalidInputError


@dataclass(frozen=True)
class Reproduction:
    """Something that can be redone.

    Attributes
    ----------
    name, description
        What it is called, and what it is in one line.
    run
        Called with the folder to write to, and whether a short version is wanted.
    """

    name: str
    description: str
    run: Callable[[Path, bool], object]


def available() -> list[str]:
    """Names of all that can be redone; nothing is imported.

    Examples
    --------
    >>> from partwise.reproduce import available
    >>> isinstance(available(), list)
    True
    """
    modules = pkgutil.iter_modules(partwise.reproduce.__path__)
    return sorted(module.name for module in modules if not module.name.startswith("_"))


def find(name: str) -> Reproduction:
    """Import what a name stands for.

    Parameters
    ----------
    name
        One of `available`.
    """
    if name not in available():
        known = ", ".join(available()) or "none yet"
        raise InvalidInputError(f"there is nothing to reproduce called {name!r}; there are: {known}.")
    module = import_module(f"{partwise.reproduce.__name__}.{name}")
    description = (module.__doc__ or "").strip().splitlines()
    return Reproduction(name, description[0] if description else "", module.run)
