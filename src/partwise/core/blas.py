"""Hold the linear algebra libraries to one thread while partwise's own threads work."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_inside = 0
_controller: Any = None
_before: list[int] = []


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """In this context BLAS uses one thread: no oversubscription, and results that do not depend on the number of cores.

    The setting belongs to the whole process. The first fit that enters changes it; the last one to leave restores it.
    """
    global _inside, _before, _controller
    with _lock:
        if _inside == 0:
            if _controller is None:
                from threadpoolctl import ThreadpoolController

                # Finding the libraries takes milliseconds, setting them microseconds, so look for them once.
                _controller = ThreadpoolController().select(user_api="blas")
            _before = [library.num_threads for library in _controller.lib_controllers]
            _set([1] * len(_before))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _set(_before)


def _set(numbers: list[int]) -> None:
    """Give each library its number of threads.

    Since version 3.7, threadpoolctl lets only the first thread that sets OpenBLAS change it again, until told that
    this thread is done. The lock keeps two fits from setting different numbers.
    """
    for library, number in zip(_controller.lib_controllers, numbers, strict=True):
        release = getattr(library, "clear_controlling_thread", lambda **_: None)
        release(force=True)
        library.set_num_threads(number)
        release(force=True)
