"""Table 1, then Figure 1; what is done so far is kept."""

from __future__ import annotations

from pathlib import Path

from partwise.reproduce._notebook import Notebook
from partwise.reproduce.allocation import figure1, table1


def run(output: Path, quick: bool) -> None:
    """Write everything to a folder; a run that was cut off goes on where it was.

    Parameters
    ----------
    output
        The folder.
    quick
        Few matrices and short fits.
    """
    notebook = Notebook(output, quick)
    table1.write(notebook, n_matrices=40 if quick else 1000)
    figure1.write(notebook, n_starts=1 if quick else 5, n_sweeps=200 if quick else 1000)
