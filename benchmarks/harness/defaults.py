"""Choosing defaults by measurement: losses of methods on many tables, kept fit by fit, and the table of all of them."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Runs = dict[str, dict[str, list[float]]]
"""Of one table: method, split, then loss and processor seconds."""
Scores = dict[str, Runs]
Task = Callable[[str], float]
"""Fits a method, by its name, to one split of one table, and gives the loss."""


def measure(
    path: Path,
    names: list[str],
    methods: list[str],
    n_splits: int,
    task: Callable[[str, int], Task],
    never: Collection[tuple[str, str]] = (),
) -> Scores:
    """Fill in what is not there yet; every fit is written down as soon as it is made.

    Parameters
    ----------
    path
        A JSON file of earlier runs.
    names, methods, n_splits
        What is wanted.
    task
        ``task(table, split)`` prepares a split.
    never
        Tables and methods that do not go together.
    """
    found: Scores = json.loads(path.read_text()) if path.exists() else {}
    for number in range(n_splits):
        for name in names:
            own = found.setdefault(name, {})
            wanted = [one for one in methods if (name, one) not in never and str(number) not in own.setdefault(one, {})]
            if not wanted:
                continue
            loss_of = task(name, number)
            for method in wanted:
                began = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    loss = loss_of(method)
                own[method][str(number)] = [loss, time.process_time() - began]
                path.write_text(json.dumps(found, indent=1) + "\n")
    return found


@dataclass(frozen=True)
class Contest:
    """Losses of methods beside one of ours.

    Attributes
    ----------
    found
        What was measured.
    ours
        The method that the others are compared with.
    aside
        Tables that no choice was made by.
    """

    found: Scores
    ours: str
    aside: tuple[str, ...] = ()

    def table(self, names: list[str], methods: list[str]) -> str:
        """One line per table, one column per method, then means and processor seconds."""
        lines = ["| table | splits | " + " | ".join(methods) + " |", "|---" * (len(methods) + 2) + "|"]
        known = [name for name in names if self.found.get(name, {}).get(self.ours)]
        for name in known:
            cells = [self._cell(self.found[name], method) for method in methods]
            label = f"{name} (kept aside)" if name in self.aside else name
            lines.append(f"| {label} | {len(self.found[name][self.ours])} | " + " | ".join(cells) + " |")
        lines.append("| mean of all tables | | " + " | ".join(self._over_tables(known, one) for one in methods) + " |")
        lines.append("| processor seconds | | " + " | ".join(self._seconds(known, one) for one in methods) + " |")
        return "\n".join(lines) + "\n"

    def _seconds(self, names: list[str], method: str) -> str:
        """Means over the tables of a method's means; ours on the same tables beside them, where these are not all."""
        own = [name for name in names if self.found[name].get(method)]
        if not own:
            return ""
        means = [
            float(np.mean([np.mean([run[1] for run in self.found[name][one].values()]) for name in own]))
            for one in (method, self.ours)
        ]
        return f"{means[0]:.1f}" if len(own) == len(names) else f"{means[0]:.1f} (ours there {means[1]:.1f})"

    def _gaps(self, own: Runs, method: str) -> Floats:
        """Loss of a method minus ours, in the splits that both have."""
        both = sorted(set(own.get(method, {})) & set(own[self.ours]))
        return np.array([own[method][number][0] - own[self.ours][number][0] for number in both])

    def _cell(self, own: Runs, method: str) -> str:
        losses = [run[0] for run in own.get(method, {}).values()]
        if method == self.ours or not losses:
            return f"{np.mean(losses):.4f}" if losses else ""
        return _shown(float(np.mean(losses)), self._gaps(own, method), len(own[self.ours]))

    def _over_tables(self, names: list[str], method: str) -> str:
        """Means over tables, and the standard error of their differences from ours over tables."""
        if not names or any(not self.found[name].get(method) for name in names):
            return ""
        mean = float(np.mean([np.mean([run[0] for run in self.found[name][method].values()]) for name in names]))
        if method == self.ours:
            return f"{mean:.4f}"
        return _shown(mean, np.array([self._gaps(self.found[name], method).mean() for name in names]), len(names))


def _shown(mean: float, gaps: Floats, n_ours: int) -> str:
    if gaps.size < 2:
        return f"{mean:.4f} ({gaps.mean():+.4f}, one split)" if gaps.size else f"{mean:.4f}"
    error = float(gaps.std(ddof=1) / np.sqrt(gaps.size))
    fewer = f", {gaps.size} splits" if gaps.size < n_ours else ""
    text = f"{mean:.4f} ({gaps.mean():+.4f} ± {error:.4f}{fewer})"
    return f"**{text}**" if gaps.mean() < -error else text
