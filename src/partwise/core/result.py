"""What a fit returns: its last state, its trace, and a status that says what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from partwise.io.optional import require

if TYPE_CHECKING:
    import pandas as pd

State = TypeVar("State")
StatusCode = Literal["converged", "max_iter", "interrupted", "stopped"]

_NAN = float("nan")
_FIXED = ("iteration", "elapsed", "objective")


@dataclass(eq=False)
class Trace:
    """One row per iteration: iteration, elapsed seconds, objective, and anything else that the steps report.

    A value that was not computed at an iteration is NaN. As in a data frame, ``len`` counts rows, iterating gives the
    names of the columns, and ``trace[name]`` is a column.

    Parameters
    ----------
    columns
        Lists of equal length; without them the trace is empty.

    Examples
    --------
    >>> trace = Trace()
    >>> trace.append(1, 0.5, {"objective": -3.0})
    >>> trace.append(2, 0.9, {"n_active": 4})
    >>> trace["objective"].tolist()
    [-3.0, nan]
    >>> trace.evaluated("objective")
    (array([1]), array([-3.]))
    """

    columns: dict[str, list[float]] = field(default_factory=lambda: {"iteration": [], "elapsed": [], "objective": []})

    def append(self, iteration: int, elapsed: float, info: Mapping[str, float]) -> None:
        """Add the row of an iteration. A new column is NaN in all earlier rows."""
        columns = self.columns
        n_rows = len(columns["iteration"])
        columns["iteration"].append(iteration)
        columns["elapsed"].append(elapsed)
        for name, value in info.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = [_NAN] * n_rows
            column.append(float(value))
        if len(info) + 2 < len(columns):
            for column in columns.values():
                if len(column) == n_rows:
                    column.append(_NAN)

    def __len__(self) -> int:
        return len(self.columns["iteration"])

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            raise KeyError(f"the trace has no column {name!r}; it has {', '.join(self.columns)}")
        return np.array(self.columns[name], dtype=np.int64 if name == "iteration" else np.float64)

    def keys(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.columns)

    def evaluated(self, name: str = "objective") -> tuple[NDArray[Any], NDArray[Any]]:
        """The iterations at which a column was computed, and its values there."""
        values = self[name]
        computed = ~np.isnan(values)
        return self["iteration"][computed], values[computed]

    def latest(self, name: str, count: int = 1) -> list[tuple[int, float]]:
        """Up to `count` last computed ``(iteration, value)`` pairs of a column, newest first."""
        values = self.columns.get(name, [])
        iterations = self.columns["iteration"]
        found: list[tuple[int, float]] = []
        for row in range(len(values) - 1, -1, -1):
            if values[row] == values[row]:  # not NaN
                found.append((int(iterations[row]), values[row]))
                if len(found) == count:
                    break
        return found

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The columns as arrays, for files."""
        return {name: self[name] for name in self.columns}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Trace:
        """Rebuild a trace from the result of `to_arrays`; ``ValueError`` if the arrays are not a trace."""
        missing = [name for name in _FIXED if name not in arrays]
        if missing:
            raise ValueError(f"a trace needs a column {missing[0]!r}")
        if any(array.shape != (len(arrays["iteration"]),) for array in arrays.values()):
            raise ValueError("the columns of a trace differ in length")
        ordered = [*_FIXED, *(name for name in arrays if name not in _FIXED)]
        return cls({name: arrays[name].tolist() for name in ordered})

    def to_frame(self) -> pd.DataFrame:
        """The trace as a pandas data frame."""
        frame: pd.DataFrame = require("pandas", "anndata", "to_frame").DataFrame(self.to_arrays())
        return frame

    def __repr__(self) -> str:
        latest = self.latest("objective")
        reached = f", objective {latest[0][1]:.6g}" if latest else ""
        return f"Trace({len(self)} iterations{reached})"


@dataclass(frozen=True)
class Status:
    """How a fit ended.

    Parameters
    ----------
    code
        ``"converged"``, ``"max_iter"``, ``"interrupted"`` (by Ctrl-C) or ``"stopped"`` (by a callback).
    message
        A sentence that says why, and what to do.
    """

    code: StatusCode
    message: str

    @property
    def converged(self) -> bool:
        """Whether the convergence rule was met."""
        return self.code == "converged"

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class FitResult(Generic[State]):
    """The result of `partwise.core.run.run`.

    Parameters
    ----------
    state
        The state of the algorithm after the last whole iteration.
    trace
        One row per iteration.
    status
        How the fit ended and what to do.
    n_iter
        Iterations done in all, those before a resume included.
    draws
        The draws that a sampler kept: the ``draws`` of its state, or None.
    """

    state: State
    trace: Trace
    status: Status
    n_iter: int
    draws: Any = None
