"""The benchmarks, one file each. A file here is found by its name; it defines one function:

``measure(settings: Settings) -> Iterator[Line]``

The first sentence of its docstring is the title under which its lines stand in the table.
"""

from __future__ import annotations

import ast
from pathlib import Path


def available() -> dict[str, str]:
    """Names and titles of the benchmarks: the files of the folder ``suite``."""
    files = sorted(Path(__file__).parent.glob("[!_]*.py"))
    return {file.stem: _title(file) for file in files}


def _title(file: Path) -> str:
    """The first line of the docstring; the file is not run."""
    text = ast.get_docstring(ast.parse(file.read_text())) or file.stem
    return text.splitlines()[0].rstrip(".")
