"""Scores of candidates over restarts, with standard errors over rows, and the rule by which one is recommended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.core.keys import Key
from partwise.selection.records import Fit, Task

Floats = NDArray[np.float64]

AS_GOOD = 1.0
"""A candidate is as good as the best if it is worse by at most this many standard errors of the paired difference."""
DISTINCT = 2.0
"""Candidates can be told apart if they differ by more than this many standard errors of the paired difference."""


class Choice(NamedTuple):
    """A model and its number of parts."""

    model: str
    rank: int

    def __str__(self) -> str:
        return f"{self.model} with {self.rank} part{'' if self.rank == 1 else 's'}"


class Difference(NamedTuple):
    """How much better one candidate is than another, in nats per held-out token or cell, over common restarts."""

    value: float
    std_error: float

    @property
    def significant(self) -> bool:
        """Whether it is beyond 2 standard errors, in either direction."""
        return abs(self.value) > DISTINCT * self.std_error


@dataclass(frozen=True, eq=False)
class Standings:
    """Row scores of all candidates.

    Parameters
    ----------
    rows
        For each candidate and restart, the scores of rows in nats.
    sizes
        Held-out tokens, or cells, of each restart.
    order
        Names of the models, the simplest first.
    """

    rows: Mapping[Choice, Mapping[int, Floats]]
    sizes: Mapping[int, float]
    order: Sequence[str]

    @classmethod
    def of(cls, fits: Mapping[Task, Fit], sizes: Mapping[int, float], order: Sequence[str]) -> Standings:
        """Collect the fits of models that take part."""
        rows: dict[Choice, dict[int, Floats]] = {}
        for task in sorted(fits):
            if task.model in order and task.restart in sizes:
                rows.setdefault(Choice(task.model, task.rank), {})[task.restart] = fits[task].rows
        return cls(rows, sizes, order)

    def score(self, choice: Choice) -> tuple[float, float]:
        """Mean over restarts of the score, and its standard error over rows."""
        found = self.rows[choice]
        total = sum(self.sizes[restart] for restart in found)
        rows = np.sum(list(found.values()), axis=0)
        return float(rows.sum()) / total, _spread(rows) / total

    def difference(self, one: Choice, other: Choice) -> Difference:
        """How much better one is than the other: rows are paired, so what makes a row hard to predict cancels."""
        common = sorted(set(self.rows[one]) & set(self.rows[other]))
        total = sum(self.sizes[restart] for restart in common)
        rows = np.sum([self.rows[one][restart] - self.rows[other][restart] for restart in common], axis=0)
        return Difference(float(np.sum(rows)) / total, _spread(rows) / total)

    @property
    def finalists(self) -> list[Choice]:
        """Candidates with the most restarts."""
        most = max(len(found) for found in self.rows.values())
        return [choice for choice, found in self.rows.items() if len(found) == most]

    def best_of(self, model: str) -> Choice:
        """The candidate of a model with the highest score, of those with the most restarts."""
        own = {choice: found for choice, found in self.rows.items() if choice.model == model}
        most = max(len(found) for found in own.values())
        return max((choice for choice in own if len(own[choice]) == most), key=lambda choice: self.score(choice)[0])

    def ranks_of(self, model: str) -> list[int]:
        """Numbers of parts that were tried."""
        return sorted(choice.rank for choice in self.rows if choice.model == model)

    def recommended(self) -> Choice:
        """The simplest of the candidates that are as good as the best: fewest parts, then the simplest model."""
        finalists = self.finalists
        totals = np.array([np.sum(list(self.rows[choice].values()), axis=0) for choice in finalists])
        return finalists[_pick(totals, np.ones(totals.shape[1]), self._simplicity(finalists))]

    def _simplicity(self, finalists: Sequence[Choice]) -> list[int]:
        ordered = sorted(finalists, key=lambda choice: (choice.rank, self.order.index(choice.model)))
        return [ordered.index(choice) for choice in finalists]

    def resampled(self, key: Key, n_resamples: int) -> list[Choice]:
        """What would be recommended for other samples of as many rows: the bootstrap over rows.

        Parameters
        ----------
        key
            Of the resampling.
        n_resamples
            How often.
        """
        finalists = self.finalists
        totals = np.array([np.sum(list(self.rows[choice].values()), axis=0) for choice in finalists])
        n_rows, simplicity = totals.shape[1], self._simplicity(finalists)
        generator = key.for_stage("resampling").generator()
        weights = (generator.multinomial(n_rows, np.full(n_rows, 1.0 / n_rows)) for _ in range(n_resamples))
        return [finalists[_pick(totals, weight.astype(np.float64), simplicity)] for weight in weights]


def _pick(totals: Floats, weights: Floats, simplicity: Sequence[int]) -> int:
    """Position of the simplest candidate as good as the best; ``totals`` is candidates x rows."""
    best = int(np.argmax(totals @ weights))
    behind = totals[best] - totals
    mean = behind @ weights / weights.sum()
    n_rows = weights.sum()
    spread = np.sqrt(n_rows / max(n_rows - 1.0, 1.0) * np.maximum(np.square(behind) @ weights - n_rows * mean**2, 0.0))
    as_good = np.flatnonzero(mean * n_rows <= AS_GOOD * spread).tolist()
    return min(as_good, key=lambda position: simplicity[position], default=best)


def _spread(rows: Floats) -> float:
    """Standard error of a sum over rows, rows being drawn from many."""
    return float(np.sqrt(rows.size) * rows.std(ddof=1)) if rows.size > 1 else float("inf")
