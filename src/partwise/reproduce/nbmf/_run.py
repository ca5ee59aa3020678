"""All figures and tables of the paper."""

from __future__ import annotations

import warnings
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf import prediction
from partwise.reproduce.nbmf._protocol import protocol


def run(output: Path, quick: bool) -> None:
    """Write everything to a folder; a run that was cut off goes on where it was.

    Parameters
    ----------
    output
        The folder.
    quick
        Short runs on the two smallest data sets.
    """
    notebook, lengths = Notebook(output, quick), protocol(quick)
    with warnings.catch_warnings():
        # The paper's numbers of iterations are what is asked for, converged or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        prediction.score_all(notebook, lengths)
