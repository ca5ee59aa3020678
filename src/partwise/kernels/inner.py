"""Wrappers for small functions that kernels call in their inner loops with arrays as arguments.

They compile like `partwise.kernels.jit.kernel`, but do not count references to their arguments: the caller holds the
arrays, so counting buys nothing, and its two atomic operations a call cost more than a random number does. Such
functions cannot allocate or slice arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

from partwise.kernels.jit import _FASTMATH

P = ParamSpec("P")
R = TypeVar("R")

_njit: Any = numba.njit  # its annotations leave out some options
_OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": _FASTMATH, "_nrt": False}


def inner_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that is called from inner loops."""
    return cast("Callable[P, R]", _njit(**_OPTIONS)(function))


def inline_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of a few instructions into its callers: an array argument takes seven words to pass."""
    return cast("Callable[P, R]", _njit(**_OPTIONS, forceinline=True)(function))
