"""Hold the linear algebra libraries to one thread while the threads of partwise are at work."""

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
    """Within this context BLAS uses one thread: no oversubscription, and bits that do not depend on the cores.

    The libraries' setting is one for the whole process: the first fit that enters changes it, the last that leaves
    restores it.
    """
    global _inside, _before, _controller
    with _lock:
        if _inside == 0:
            if _controller is None:
                from threadpoolctl import ThreadpoolController

                # Looking for the libraries takes milliseconds, setting them microseconds: look once.
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

    Since version 3.7 threadpoolctl listens to the first thread that sets OpenBLAS and ignores all others, unless told
    that the first is done. The lock sees to it that no two fits are at odds.
    """
    for library, number in zip(_controller.lib_controllers, numbers, strict=True):
        release = getattr(library, "clear_controlling_thread", lambda **_: None)
        release(force=True)
        library.set_num_threads(number)
        release(force=True)
