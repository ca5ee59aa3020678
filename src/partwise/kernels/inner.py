"""Wrappers for small functions that kernels call in their inner loops with arrays as arguments.

They compile like `partwise.kernels.jit.kernel`, but do not count references to their arguments: the caller holds the
arrays, so counting buys nothing, and its two atomic operations a call cost more than a random number does. Such
functions cannot allocate or slice arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from partwise.kernels.jit import compiled

P = ParamSpec("P")
R = TypeVar("R")


def inner_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that is called from inner loops."""
    return compiled(function, _nrt=False)


def inline_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of a few instructions into its callers: an array argument takes seven words to pass."""
    return compiled(function, _nrt=False, forceinline=True)
