"""Packages that only some formats need."""

import importlib
from typing import Any

from partwise.errors import MissingDependencyError


def require(module: str, extra: str, purpose: str) -> Any:
    """Import an optional module, or say how to install it.

    Parameters
    ----------
    module
        Dotted name of the module.
    extra
        The extra of partwise that installs it.
    purpose
        What it is needed for, as in "reading .h5ad files".
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingDependencyError(f'{purpose} needs {package}: pip install "partwise[{extra}]".') from error
