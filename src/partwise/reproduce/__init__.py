"""Papers redone, one module each: ``partwise reproduce NAME`` runs the module NAME of this package.

A module, or a package of modules, opens with a docstring whose first line describes it, and has ``run(output, quick)``,
which writes its results and figures into the folder ``output`` through `_notebook.Notebook`. Names that start with an
underscore are helpers.
"""

from partwise.reproduce._dispatch import Reproduction, available, find

__all__ = ["Reproduction", "available", "find"]
