"""Formulas over arrays of the workers: what a task computes by the way, instead of an array that would be kept."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A formula of more is computed at once: it would hold on to arrays that nothing else needs any more.
_MOST_LEAVES, _MOST_STEPS = 6, 40


@dataclass(frozen=True, eq=False)
class Formula:
    """A function by its name, and its arguments: formulas, arrays of the workers, arrays of NumPy and numbers.

    Attributes
    ----------
    leaves
        The arrays of the workers in it.
    inner
        The formulas in it, each once, those that need others after these.
    n_rows
        Rows of the leaves: arrays of NumPy with as many are cut as these are.
    """

    function: str
    arguments: tuple[Any, ...]
    leaves: tuple[Any, ...]
    inner: tuple[Formula, ...]
    n_rows: int

    @classmethod
    def of(cls, function: str, arguments: Sequence[Any], n_rows: int) -> Formula:
        """A function of arguments."""
        leaves: dict[int, Any] = {}
        inner: dict[int, Formula] = {}
        for argument in arguments:
            if isinstance(argument, Formula):
                leaves |= {id(leaf): leaf for leaf in argument.leaves}
                inner |= {id(formula): formula for formula in (*argument.inner, argument)}
            elif hasattr(argument, "pieces"):
                leaves[id(argument)] = argument
        return cls(function, tuple(arguments), tuple(leaves.values()), tuple(inner.values()), n_rows)

    @property
    def is_long(self) -> bool:
        """Whether it had better be computed now."""
        return len(self.leaves) > _MOST_LEAVES or len(self.inner) > _MOST_STEPS

    def between(self, send: Callable[[Any], Any], start: int, stop: int) -> dict[str, Any]:
        """What a task needs to compute it for some rows: values, and steps that each append one to them."""
        formulas = (*self.inner, self)
        known = {id(value) for value in (*self.leaves, *formulas)}
        constants = {id(value): value for formula in formulas for value in formula.arguments if id(value) not in known}
        places = {id(value): at for at, value in enumerate((*self.leaves, *constants.values(), *formulas))}
        return {
            "rows": [leaf.between(start, stop) for leaf in self.leaves],
            "constants": [
                send(value[start:stop] if has_rows(value, self.n_rows) else value) for value in constants.values()
            ],
            "steps": [(formula.function, [places[id(value)] for value in formula.arguments]) for formula in formulas],
        }


def has_rows(value: Any, n_rows: int) -> bool:
    """Whether an array of NumPy has a row for each sample, and not one for all."""
    return isinstance(value, np.ndarray) and value.ndim > 1 and value.shape[0] == n_rows


def fit_together(rows: Any, values: Sequence[Any]) -> bool:
    """Whether a function of each entry keeps the rows of an array as they are."""
    n_rows, ndim = rows.shape[0], rows.ndim
    for value in values:
        shape = np.shape(value) if not hasattr(value, "bounds") else value.shape
        if hasattr(value, "bounds"):
            if shape[0] != n_rows or len(shape) != ndim:
                return False
        elif not (len(shape) < ndim or (len(shape) == ndim and shape[0] in ((1, n_rows) if ndim > 1 else (1,)))):
            # An array of NumPy without columns would be taken for one row.
            return False
    return True


def name_of(function: Callable[..., Any]) -> str:
    """By what a worker finds a function of a module, or a function of NumPy or SciPy of each entry."""
    if not isinstance(function, np.ufunc):
        return f"{function.__module__}:{function.__qualname__}"
    name = function.__name__
    return f"numpy:{name}" if getattr(np, name, None) is function else f"scipy.special:{name}"


@lru_cache(maxsize=256)
def named(name: str) -> Callable[..., Any]:
    """The function of a name."""
    module, _, attribute = name.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return function


def tried(name: str, arguments: Sequence[Any]) -> NDArray[Any]:
    """What a function gives for one row: its shape and its type are those of all."""
    with np.errstate(all="ignore"):
        return np.asarray(named(name)(*arguments))


def computed(values: list[Any], steps: Sequence[tuple[str, Sequence[int]]]) -> NDArray[Any]:
    """Take the steps."""
    for name, arguments in steps:
        values.append(named(name)(*(values[at] for at in arguments)))
    return np.ascontiguousarray(values[-1])
