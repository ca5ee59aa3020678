"""The one typed wrapper around numba's decorators: every kernel of the library is compiled with the same options."""

import functools
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

# Sums may be reassociated (SIMD lanes) and multiply-adds fused; NaN, inf and signed zeros keep their meaning.
# The result depends on the machine's vector width, never on the number of threads.
_FASTMATH = {"reassoc", "contract"}

_making = threading.RLock()


class Kernel:
    """A function that numba gets at first use, so that an import waits neither for numba nor for its dispatchers.

    numba sees the dispatcher in its place, so that kernels can call it.
    """

    def __init__(self, function: Callable[..., Any], make: Callable[[Callable[..., Any]], Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._make = make
        self._made: Any = None

    @property
    def dispatcher(self) -> Any:
        """The compiled function; the function itself under NUMBA_DISABLE_JIT."""
        if self._made is None:
            with _making:  # two threads would compile it twice
                self._made = self._made or self._make(self._function)
        return self._made

    @property
    def _numba_type_(self) -> Any:
        from numba.core.registry import cpu_target

        made = self.dispatcher
        cpu_target.typing_context.refresh()  # it may have been made a moment ago, for this very compilation
        return cpu_target.typing_context.resolve_value_type(made)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run it, compiled."""
        return (self._made or self.dispatcher)(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)

    def __reduce__(self) -> str:
        return str(self.__qualname__)


def compiled(function: Callable[P, R], **options: object) -> Callable[P, R]:
    """Compile a function without the GIL, division by zero as in NumPy, and keep it on disk."""
    return cast("Callable[P, R]", Kernel(function, functools.partial(_compile, options)))


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a serial function on flat arrays."""
    return compiled(function)


# Small functions that kernels call in their inner loops do not count references to their arrays. The caller holds the
# arrays, so counting gains nothing, and its two atomic operations per call cost more than a random number. Such
# functions cannot allocate or slice arrays.


def inner_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that is called from inner loops."""
    return compiled(function, _nrt=False)


def inline_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a short function into its callers: passing an array argument takes seven words."""
    return compiled(function, _nrt=False, forceinline=True)


def intrinsic(builder: Callable[..., Any]) -> Any:
    """An instruction that kernels can use: numba's `intrinsic`, made when it is first used."""

    def make(builder: Callable[..., Any]) -> Any:
        from numba import extending

        return extending.intrinsic(builder)

    return Kernel(builder, make)


def _compile(options: dict[str, object], function: Callable[..., Any]) -> Any:
    import numba

    from partwise.kernels.cache import KernelCache

    njit: Any = numba.njit  # its annotations leave out some options
    made = njit(nogil=True, error_model="numpy", fastmath=_FASTMATH, **options)(function)
    if made is not function:
        made._cache = KernelCache(made)
    return made
