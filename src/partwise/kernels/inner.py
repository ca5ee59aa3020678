"""The wrapper for small functions that kernels call in their inner loops with arrays as arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

from partwise.kernels.jit import _FASTMATH

P = ParamSpec("P")
R = TypeVar("R")


def inner_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `partwise.kernels.jit.kernel`, without counting references to the arguments.

    The caller holds the arrays, so counting buys nothing, and the two atomic operations a call cost more than a
    random number does. Such a function cannot allocate or slice arrays.
    """
    compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FASTMATH, _nrt=False)(function)
    return cast("Callable[P, R]", compiled)
