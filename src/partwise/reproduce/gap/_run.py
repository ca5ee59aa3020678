"""All parts, in the paper's order."""

from __future__ import annotations

from pathlib import Path

from partwise.reproduce._notebook import Notebook
from partwise.reproduce.gap import contour, nips, scales, surplus


def run(output: Path, quick: bool) -> None:
    """Write all figures and ``report.md``; the full version takes up to four hours, most of them for Figure 4."""
    notebook = Notebook(output, quick)
    for part in (contour, scales, surplus, nips):
        part.make(notebook)
