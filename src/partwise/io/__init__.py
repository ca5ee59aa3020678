"""Files: reading matrices, writing results, and containers for models. Nothing here knows a model.

Lazy like the package, so that the process which opens HDF5 files starts fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partwise.io.reading import read
    from partwise.io.table import Table

_PUBLIC = {"Table": "partwise.io.table", "read": "partwise.io.reading"}

__all__ = ["Table", "read"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
