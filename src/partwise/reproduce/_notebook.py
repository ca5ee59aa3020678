"""The output folder of a reproduction: results by step, so that an interrupted run continues; figures; a report."""

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from partwise._version import __version__
from partwise.core.progress import say
from partwise.errors import InvalidInputError
from partwise.io.atomic import write_atomically


class Notebook:
    """Steps that are computed once and stored in ``results.json``, figures as PNG and PDF, and ``report.md``.

    Parameters
    ----------
    folder
        Output folder. Results of an earlier run of the same kind and version are reused.
    quick
        Whether to run the short version. The two versions cannot share a folder.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> Notebook(folder, quick=True).step("sum", lambda: 1 + 1)
    2
    >>> Notebook(folder, quick=True).step("sum", lambda: 1 / 0)  # known from the first run
    2
    """

    def __init__(self, folder: Path, quick: bool) -> None:
        self.folder = folder
        self.quick = quick
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "results.json"
        self._head = {"version": __version__, "quick": quick}
        self._steps: dict[str, Any] = self._earlier()
        self._sections: dict[str, str] = {}
        self._figures: list[str] = []

    def step(self, name: str, compute: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """The result of a step: read if an earlier run stored it, else computed and written.

        Parameters
        ----------
        name
            Unique name in this notebook; change it if the computation changes.
        compute
            Returns numbers, texts, lists and dictionaries with texts as keys (NumPy's are converted).
        arguments, options
            Passed to ``compute``.
        """
        if name not in self._steps:
            say(f"{name} …")
            began = time.perf_counter()
            result = _plain(compute(*arguments, **options))
            seconds = round(time.perf_counter() - began, 3)
            self._steps[name] = {"result": result, "seconds": seconds}
            self._write()
            say(f"{name}: {seconds:.1f} s")
        return self._steps[name]["result"]

    def seconds(self, name: str) -> float:
        """How long a step took, in the run that computed it."""
        return float(self._steps[name]["seconds"])

    def figure(self, name: str, figure: Any) -> None:
        """Write a figure as ``name.png`` and ``name.pdf``."""
        from partwise.plotting import save_figure

        for suffix in ("png", "pdf"):
            save_figure(figure, self.folder / f"{name}.{suffix}")
        if name not in self._figures:
            self._figures.append(name)

    def section(self, title: str, text: str) -> None:
        """Add or replace a section of ``report.md``. Figures drawn before are shown at its end.

        Parameters
        ----------
        title
            Title of the section; a section with the same title is replaced.
        text
            Markdown.
        """
        self._sections[title] = text.strip()
        parts = [f"# {self.folder.name}: {_described(self._head)}"]
        parts += [f"## {heading}\n\n{body}" for heading, body in self._sections.items()]
        if self._figures:
            parts += ["## Figures", *(f"![{name}]({name}.png)" for name in self._figures)]
        self._text("report.md", "\n\n".join(parts) + "\n")

    def table(self, title: str, head: Sequence[str], rows: Iterable[Sequence[Any]], *, before: str = "") -> None:
        """Add a section that holds a table, below the text ``before`` if there is any."""
        self.section(title, f"{before}\n\n{table(head, rows)}")

    def _text(self, name: str, content: str) -> None:
        write_atomically(self.folder / name, lambda aside: aside.write_text(content, encoding="utf-8"))

    def _earlier(self) -> dict[str, Any]:
        if not self._file.exists():
            return {}
        try:
            kept = json.loads(self._file.read_text(encoding="utf-8"))
            head, steps = {key: kept[key] for key in self._head}, dict(kept["steps"])
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"{self._file} is not a file of results; choose another folder.") from error
        if head != self._head:
            raise InvalidInputError(
                f"{self._file} holds results of another kind ({_described(head)}) than wanted "
                f"({_described(self._head)}); choose another folder."
            )
        return steps

    def _write(self) -> None:
        self._text(self._file.name, json.dumps({**self._head, "steps": self._steps}, indent=1, allow_nan=False) + "\n")


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table in Markdown.

    Examples
    --------
    >>> print(table(["method", "error"], [["exact", 0]]))
    | method | error |
    |---|---|
    | exact | 0 |
    """
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def _described(head: dict[str, Any]) -> str:
    return f"{'quick' if head['quick'] else 'full'}, version {head['version']}"


def _plain(value: Any) -> Any:
    """The same in JSON types; a number that is not finite becomes a text that ``float`` can read."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
