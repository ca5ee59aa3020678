"""Files: read matrices, write results, and containers for models. No code here depends on a model.

Imports are lazy, so that the process which opens HDF5 files starts fast.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partwise.io.annotated import write_h5ad as write_h5ad
    from partwise.io.reading import read as read
    from partwise.io.table import Table as Table
    from partwise.io.writing import write_matrix as write_matrix
    from partwise.io.writing_tables import write_columns as write_columns
    from partwise.io.writing_tables import write_table as write_table

_MODULES = {
    "Table": "table",
    "read": "reading",
    "write_columns": "writing_tables",
    "write_h5ad": "annotated",
    "write_matrix": "writing",
    "write_table": "writing_tables",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_MODULES)
