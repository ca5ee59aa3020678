"""Experiments of papers, one package each: ``partwise reproduce NAME`` runs the package NAME of this package.

A module, or a package of modules, opens with a docstring whose first line describes it, and has ``EXPERIMENTS``,
functions that write their results and figures into a `_notebook.Notebook`. Names that start with an underscore are
helpers.
"""

from partwise.reproduce._dispatch import Reproduction, available, find

__all__ = ["Reproduction", "available", "find"]
