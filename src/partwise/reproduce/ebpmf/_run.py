"""All parts, one after the other."""

from __future__ import annotations

from pathlib import Path

from partwise.reproduce._notebook import Notebook
from partwise.reproduce.ebpmf import poisson_means, prediction, recovery


def run(output: Path, quick: bool) -> None:
    """Write all figures and tables into a folder.

    Parameters
    ----------
    output
        The folder; what an earlier run computed there is not computed again.
    quick
        Fewer and smaller repetitions.
    """
    notebook = Notebook(output, quick)
    for part in (poisson_means, recovery, prediction):
        part.run(notebook)
