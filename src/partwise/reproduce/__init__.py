"""Papers redone, one module each: ``partwise reproduce NAME`` runs the module NAME of this package.

A module opens with a docstring whose first line describes it, and has ``run(output, quick)``, which writes its tables
and figures into the folder ``output``. Modules whose name starts with an underscore are helpers.
"""

from partwise.reproduce._dispatch import Reproduction, available, find

__all__ = ["Reproduction", "available", "find"]
