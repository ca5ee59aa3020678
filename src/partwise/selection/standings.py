"""Scores of candidates over restarts, with standard errors over rows, and the rules for recommending one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from partwise.core.keys import Key
from partwise.kernels.arrays import Floats
from partwise.metrics.matching import stability
from partwise.selection.records import Fit, Task

AS_GOOD = 1.0
"""A candidate is as good as the best if it is worse by at most this many standard errors of the paired difference."""
DISTINCT = 2.0
"""Candidates differ if their difference exceeds this many standard errors of the paired difference."""
HOPELESS, MATTERS = 4.0, 0.02
"""Models that are worse by more standard errors, and more nats per token or cell, than this are ruled out."""
DISASTER = 0.5
"""From this many nats on, ignore the standard error: one held-out count got a probability of nearly 0."""
STABLE = 0.9
"""Parts are stable if matched parts of different restarts have at least this mean cosine."""
RULES = {"best": 0.0, "simple": AS_GOOD, "stable": DISTINCT}
"""Rules by name, and by how many standard errors the recommended candidate may be worse than the best.

``"best"`` takes the best prediction, ``"simple"`` the fewest parts, ``"stable"`` the most parts that restarts agree on.
"""


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
        """Whether it exceeds 2 standard errors, in either direction."""
        return abs(self.value) > DISTINCT * self.std_error

    @property
    def hopeless(self) -> bool:
        """Whether a candidate that is this much worse is ruled out."""
        return self.value > max(min(HOPELESS * self.std_error, DISASTER), MATTERS)


@dataclass(frozen=True, eq=False)
class Standings:
    """Row scores of all candidates.

    Parameters
    ----------
    rows
        For each candidate and restart, the scores of rows in nats.
    sizes
        Number of held-out tokens, or cells, for each restart.
    order
        Names of the models, the simplest first.
    stabilities
        For candidates with several restarts: mean cosine of matched parts.
    counted
        For each restart, what each row contributes to its size; None if not needed, as with log-likelihoods.
    """

    rows: Mapping[Choice, Mapping[int, Floats]]
    sizes: Mapping[int, float]
    order: Sequence[str]
    stabilities: Mapping[Choice, float] = field(default_factory=dict)
    counted: Mapping[int, Floats] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        fits: Mapping[Task, Fit],
        sizes: Mapping[int, float],
        order: Sequence[str],
        counted: Mapping[int, Floats] | None = None,
    ) -> Standings:
        """Collect the fits of the models that take part."""
        rows: dict[Choice, dict[int, Floats]] = {}
        parts: dict[Choice, list[Floats]] = {}
        for task in sorted(fits):
            if task.model in order and task.restart in sizes:
                choice = Choice(task.model, task.rank)
                rows.setdefault(choice, {})[task.restart] = fits[task].rows
                parts.setdefault(choice, []).append(fits[task].components)
        return cls(rows, sizes, order, {choice: stability(found) for choice, found in parts.items()}, counted or {})

    def score(self, choice: Choice) -> tuple[float, float]:
        """Mean score over restarts, and its standard error over rows."""
        found = self.rows[choice]
        total = sum(self.sizes[restart] for restart in found)
        rows = np.sum(list(found.values()), axis=0)
        mean = float(rows.sum()) / total
        if self.counted:  # rows that do not count do not vary
            rows = rows - mean * np.sum([self.counted[restart] for restart in found], axis=0)
        return mean, spread(rows) / total

    def difference(self, one: Choice, other: Choice) -> Difference:
        """How much better one is than the other. Rows are paired, so what makes a row hard to predict cancels."""
        common = sorted(set(self.rows[one]) & set(self.rows[other]))
        total = sum(self.sizes[restart] for restart in common)
        rows = np.sum([self.rows[one][restart] - self.rows[other][restart] for restart in common], axis=0)
        return Difference(float(np.sum(rows)) / total, spread(rows) / total)

    @property
    def finalists(self) -> list[Choice]:
        """Candidates with the most restarts."""
        most = max(len(found) for found in self.rows.values())
        return [choice for choice, found in self.rows.items() if len(found) == most]

    def best_of(self, model: str) -> Choice:
        """The candidate of a model with the highest score, among those with the most restarts."""
        own = {choice: found for choice, found in self.rows.items() if choice.model == model}
        most = max(len(found) for found in own.values())
        return self.leader(choice for choice in own if len(own[choice]) == most)

    def leader(self, choices: Iterable[Choice]) -> Choice:
        """The candidate with the highest score."""
        return max(choices, key=self.score)

    def ranks_of(self, model: str) -> list[int]:
        """Every number of parts that was tried."""
        return sorted(choice.rank for choice in self.rows if choice.model == model)

    def recommended(self, rule: str = "simple") -> Choice:
        """The candidate that a rule of `RULES` prefers, among those that are as good as the best under it.

        If no candidate is stable, ``"stable"`` is ``"simple"``.
        """
        finalists, totals, allowed, places = self._contest(rule)
        return finalists[_pick(totals.sum(axis=0), np.ones(totals.shape[2]), allowed, places)]

    def resampled(self, key: Key, n_resamples: int, rule: str = "simple") -> list[Choice]:
        """What other rows and restarts would have recommended: a bootstrap over both.

        Parameters
        ----------
        key
            Key of the resampling.
        n_resamples
            Number of resamples.
        rule
            One of `RULES`.
        """
        finalists, totals, allowed, places = self._contest(rule)
        n_restarts, _, n_rows = totals.shape
        generator = key.for_stage("resampling").generator()
        found = []
        for _ in range(n_resamples):
            rows = generator.multinomial(n_rows, np.full(n_rows, 1.0 / n_rows)).astype(np.float64)
            restarts = generator.multinomial(n_restarts, np.full(n_restarts, 1.0 / n_restarts))
            found.append(finalists[_pick(np.tensordot(restarts, totals, axes=1), rows, allowed, places)])
        return found

    def _contest(self, rule: str) -> tuple[list[Choice], Floats, float, list[int]]:
        """Finalists, their scores (restarts x finalists x rows), the standard errors that a rule allows, its order."""
        finalists = self.finalists
        restarts = sorted(self.rows[finalists[0]])
        totals = np.array([[self.rows[choice][restart] for choice in finalists] for restart in restarts])
        stable = [choice for choice in finalists if self.stabilities.get(choice, np.nan) >= STABLE]
        if rule == "stable" and not stable:
            rule = "simple"
        sign, unstable = (-1, set(finalists) - set(stable)) if rule == "stable" else (1, set())
        places = [(one in unstable, sign * one.rank, self.order.index(one.model)) for one in finalists]
        return finalists, totals, RULES[rule], [sorted(places).index(place) for place in places]


def _pick(totals: Floats, weights: Floats, allowed: float, places: Sequence[int]) -> int:
    """Position of the preferred candidate among those as good as the best; ``totals`` is candidates x rows."""
    best = int(np.argmax(totals @ weights))
    behind = totals[best] - totals
    n_rows = weights.sum()
    mean = behind @ weights / n_rows
    spread = np.sqrt(n_rows / max(n_rows - 1.0, 1.0) * np.maximum(np.square(behind) @ weights - n_rows * mean**2, 0.0))
    as_good = np.flatnonzero(mean * n_rows <= allowed * spread).tolist()
    return min(as_good, key=places.__getitem__, default=best)


def spread(rows: Floats) -> float:
    """Standard error of a sum over rows, as a sample of many rows."""
    return float(np.sqrt(rows.size) * rows.std(ddof=1)) if rows.size > 1 else float("inf")
