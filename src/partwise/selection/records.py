"""What a comparison stores about each fit, in files from which a killed run continues: one CSV line per fit."""

import csv
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints

import numpy as np

from partwise.errors import FileFormatError, InvalidInputError
from partwise.io.atomic import atomic_path, disk_error, write_atomically
from partwise.io.source import bytes_allowed, library, text_lines
from partwise.kernels.arrays import Floats

SETTINGS = "comparison.json"


class Task(NamedTuple):
    """A fit to do: model, number of parts, and restart (which determines the held-out data and the seed)."""

    model: str
    rank: int
    restart: int


@dataclass(frozen=True, eq=False)
class Record:
    """The result of a task. Fields of subclasses are numbers and words for the CSV line, and arrays for a file."""

    model: str
    rank: int
    restart: int

    @property
    def task(self) -> Task:
        """The task."""
        return Task(self.model, self.rank, self.restart)

    def found(self) -> str:
        """The result in a few words."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{self.model}, {self.rank} part{'' if self.rank == 1 else 's'}, restart {self.restart}: {self.found()}"


@dataclass(frozen=True, eq=False)
class Fit(Record):
    """A fit to data of which a fifth of the tokens, or cells, was held out.

    Attributes
    ----------
    model, rank, restart
        The task.
    score
        Held-out log-likelihood, in nats per token or cell; or the mean score of lists.
    n_active
        Number of parts that explain a noticeable share of the data.
    evidence
        The model's own objective on the training data: log-likelihood, marginal likelihood or its bound; NaN if a
        sampler has none.
    coherence, diversity
        Measures of the parts of counts (`partwise.metrics`), mean over parts; NaN for bits. They decide nothing.
    status
        How the fit ended: ``"converged"``, ``"max_iter"``, ...
    seconds
        Time of the fit and its score. It decides nothing.
    rows
        Score of each row, in nats or on the scale of lists.
    components
        The active parts, parts x features.
    """

    score: float
    n_active: int
    evidence: float
    coherence: float
    diversity: float
    status: str
    seconds: float
    rows: Floats = field(repr=False)
    components: Floats = field(repr=False)

    def found(self) -> str:
        """Score and active parts."""
        return f"score {self.score:.4f}, {self.n_active} active ({self.seconds:.1f} s)"


@dataclass(frozen=True, eq=False)
class NewRows(Record):
    """A fit to four fifths of the rows, scored on the others.

    Attributes
    ----------
    completion, completion_error
        Log-likelihood, in nats, of a token (or cell) of a new row given the other half of the row.
    likelihood, likelihood_error
        Marginal log-likelihood of new rows in nats per token, with activations integrated out; NaN without a prior.
    seconds
        Time of all this, in seconds.
    rows
        Log-likelihood of each row's predicted tokens, in nats; empty for bits.
    """

    completion: float
    completion_error: float
    likelihood: float
    likelihood_error: float
    seconds: float
    rows: Floats = field(repr=False)

    def found(self) -> str:
        """Document completion of new rows."""
        return f"new rows {self.completion:.4f} nats ({self.seconds:.1f} s)"


@dataclass(frozen=True, eq=False)
class Evidence(Record):
    """Log p(X) of all data, with everything integrated out, and its standard error."""

    value: float
    std_error: float
    seconds: float

    def found(self) -> str:
        """The evidence and its standard error."""
        return f"log p(X) {self.value:.1f} ± {self.std_error:.1f} ({self.seconds:.1f} s)"


KINDS: Mapping[str, tuple[type[Any], str]] = {
    "fit": (Fit, "fits"),
    "new rows": (NewRows, "new_rows"),
    "evidence": (Evidence, "evidence"),
}
"""The kinds of tasks: the class of their records, and the name of their file."""

Kept = TypeVar("Kept", bound=Record)


class TaskRecords(Generic[Kept]):
    """Records by task, in memory and, with a folder, in ``NAME.csv``, which grows by one line per record.

    Parameters
    ----------
    kind
        Class of the records.
    name
        Name of the file, and of the folder for arrays.
    folder
        An existing folder; None keeps everything in memory.
    """

    def __init__(self, kind: type[Kept], name: str, folder: Path | None) -> None:
        self._kind, self._lock = kind, threading.Lock()
        hints = get_type_hints(kind)
        self._types = {part.name: hints[part.name] for part in fields(kind)}
        self._cells = [part for part, written in self._types.items() if written in (str, int, float)]
        self._arrays = [part for part in self._types if part not in self._cells]
        self._path = None if folder is None else folder / f"{name}.csv"
        self._array_folder = None if folder is None else folder / name
        self.records: dict[Task, Kept] = {}
        if self._path is not None:
            self._take_up(self._path)

    def put(self, record: Kept) -> None:
        """Store a record: first its arrays, then its line, which says that they are there."""
        with self._lock:
            self.records[record.task] = record
            if self._path is None:
                return
            if self._arrays:
                with atomic_path(self._array_file(record.task)) as aside:
                    np.savez(aside, **{name: getattr(record, name) for name in self._arrays})
            values = (getattr(record, name) for name in self._cells)
            texts = [repr(float(value)) if isinstance(value, float) else str(value) for value in values]  # exact
            try:
                with self._path.open("a", encoding="utf-8", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerow(texts)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise disk_error(error, self._path) or error from None

    def _array_file(self, task: Task) -> Path:
        assert self._array_folder is not None
        self._array_folder.mkdir(exist_ok=True)
        return self._array_folder / f"{task.model}-{task.rank}-{task.restart}.npz"

    def _take_up(self, path: Path) -> None:
        """Read earlier results. A half-written line of a killed run is dropped, and its fit is repeated."""
        lines = list(text_lines(path, bytes_allowed())) if path.exists() else []
        whole = [line for line in lines if line.endswith("\n")]
        for line in whole[1:]:
            record = self._record(path, line)
            self.records[record.task] = record
        kept = "".join(whole) or ",".join(self._cells) + "\n"
        write_atomically(path, lambda aside: aside.write_text(kept, encoding="utf-8"))

    def _record(self, path: Path, line: str) -> Kept:
        """The record from a line and the arrays beside it."""
        try:
            cells = zip(self._cells, next(csv.reader([line])), strict=True)
            known: dict[str, Any] = {name: self._types[name](cell) for name, cell in cells}
        except (ValueError, csv.Error) as error:
            told = f"{path} has a line that no comparison wrote ({line.strip()!r}): remove it."
            raise FileFormatError(told) from error
        if self._arrays:
            stored = self._array_file(Task(known["model"], known["rank"], known["restart"]))
            # Opened here, because NumPy does not close a damaged file that it opened.
            with library(stored, "a file of a comparison"), stored.open("rb") as file:
                arrays = np.load(file, allow_pickle=False)
                known |= {name: arrays[name] for name in self._arrays}
        return self._kind(**known)


def check_identity(folder: Path, identity: Mapping[str, Any]) -> None:
    """Create the folder and store what is compared there, or refuse a folder that holds another comparison.

    Parameters
    ----------
    folder
        Where records are stored.
    identity
        What must be equal for records to be used again: data, seed, settings of models.
    """
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"{folder} is a file, and a comparison needs a folder: give another name.")
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(identity, indent=2, sort_keys=True) + "\n"
    path = folder / SETTINGS
    if not path.exists():
        write_atomically(path, lambda aside: aside.write_text(text, encoding="utf-8"))
        return
    stored = stored_identity(folder)
    for name, value in json.loads(text).items():
        if stored.get(name) != value:
            raise InvalidInputError(
                f"{folder} holds a comparison that differs in its {name}: give another folder, or remove this one."
            )


def stored_identity(folder: Path) -> dict[str, Any]:
    """What a folder says about its comparison; empty if there is none."""
    path = folder / SETTINGS
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(f"{path} is damaged ({error}): remove the folder.") from error
    return found if isinstance(found, dict) else {}
