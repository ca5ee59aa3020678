"""What is documented about the published data: the entries of ``catalogue.toml``, which stands beside this module."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

Entry = TypeVar("Entry")


@dataclass(frozen=True, kw_only=True)
class CountsEntry:
    """A count matrix: its documented sizes, and where to get it by hand."""

    shape: tuple[int, int]
    nonzeros: int
    total: int
    largest: int
    origin: str


@dataclass(frozen=True, kw_only=True)
class BinaryEntry:
    """A 0/1 matrix as published, features x samples; ``ones`` is None where no number is documented."""

    shape: tuple[int, int]
    ones: int | None = None
    missing: int
    rows: str
    columns: str
    origin: str


@dataclass(frozen=True, kw_only=True)
class GapEntry:
    """A trained Gamma-Poisson model with its counts."""

    shape: tuple[int, int]
    n_components: int
    mean_length: float
    largest_length: int
    mean_nonzeros: float
    origin: str


def _entries(kind: type[Entry], documented: dict[str, Any]) -> Mapping[str, Entry]:
    return MappingProxyType(
        {name: kind(**{**entry, "shape": tuple(entry["shape"])}) for name, entry in documented.items()}
    )


_DOCUMENTED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

COUNTS = _entries(CountsEntry, _DOCUMENTED["counts"])
"""Count matrices that `partwise.datasets.load_counts` reads."""

BINARY = _entries(BinaryEntry, _DOCUMENTED["binary"])
"""Binary matrices that `partwise.datasets.load_binary` reads."""

GAP = _entries(GapEntry, _DOCUMENTED["gap"])
"""Trained Gamma-Poisson models that `partwise.datasets.load_gap` reads."""
