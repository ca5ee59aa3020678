"""The one typed wrapper around numba's decorator: every kernel of the library is compiled with the same options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

from partwise.kernels.cache import KernelCache

P = ParamSpec("P")
R = TypeVar("R")

# Sums may be reassociated (SIMD lanes) and multiply-adds fused; NaN, inf and signed zeros keep their meaning.
# The result depends on the machine's vector width, never on the number of threads.
_FASTMATH = {"reassoc", "contract"}


def compiled(function: Callable[P, R], **options: object) -> Callable[P, R]:
    """Compile a function without the GIL, division by zero as in NumPy, and keep it on disk."""
    njit: Any = numba.njit  # its annotations leave out some options
    dispatcher: Any = njit(nogil=True, error_model="numpy", fastmath=_FASTMATH, **options)(function)
    if dispatcher is not function:  # as it is under NUMBA_DISABLE_JIT
        dispatcher._cache = KernelCache(dispatcher)
    return cast("Callable[P, R]", dispatcher)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a serial function on flat arrays."""
    return compiled(function)


# Small functions that kernels call in their inner loops with arrays as arguments do not count references to these: the
# caller holds the arrays, so counting buys nothing, and its two atomic operations a call cost more than a random number
# does. Such functions cannot allocate or slice arrays.


def inner_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that is called from inner loops."""
    return compiled(function, _nrt=False)


def inline_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of a few instructions into its callers: an array argument takes seven words to pass."""
    return compiled(function, _nrt=False, forceinline=True)
