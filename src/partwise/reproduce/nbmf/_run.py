"""All figures and tables of the paper."""

from __future__ import annotations

import warnings
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from partwise.reproduce._notebook import Notebook
from partwise.reproduce.nbmf import (
    concentration,
    convergence,
    dictionaries,
    dir_dir,
    links,
    originals,
    parliament,
    prediction,
    references,
    synthetic,
)
from partwise.reproduce.nbmf._protocol import Protocol, protocol
from partwise.reproduce.nbmf.report import Results, sections


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
        _figures_of_definitions(notebook)
        convergence.draw(notebook, lengths)
        for title, text in sections(_results(notebook, lengths)).items():
            notebook.section(title, text)


def _figures_of_definitions(notebook: Notebook) -> None:
    links.draw(notebook)
    synthetic.draw(notebook)
    originals.draw(notebook)


def _results(notebook: Notebook, lengths: Protocol) -> Results:
    found_parliament = parliament.draw(notebook, lengths)
    found_references = references.compare(notebook, lengths)
    found_dictionaries = dictionaries.draw(notebook, lengths)
    found_dir_dir = dir_dir.compare(notebook, lengths)
    found_concentration = concentration.draw(notebook, lengths)
    scores = prediction.score_all(notebook, lengths)
    prediction.draw(notebook, scores)
    return Results(
        parliament=found_parliament,
        dictionaries=found_dictionaries,
        references=found_references,
        dir_dir=found_dir_dir,
        concentration=found_concentration,
        concentrations=lengths.concentrations,
        scores=scores,
        seconds=prediction.processor_seconds(notebook, lengths),
    )
