"""The one typed wrapper around numba's decorator: every kernel of the library is compiled with the same options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

# Sums may be reassociated (SIMD lanes) and multiply-adds fused; NaN, inf and signed zeros keep their meaning.
# The result depends on the machine's vector width, never on the number of threads.
_FASTMATH = {"reassoc", "contract"}


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a serial function on flat arrays: cached on disk, without the GIL, division by zero as in NumPy."""
    compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FASTMATH)(function)
    return cast("Callable[P, R]", compiled)
