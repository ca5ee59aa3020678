"""Hold the linear algebra libraries to one thread while partwise's own threads work."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_inside = 0
_controller: Any = None
_before: list[int] | None = None


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
            if _before is None:
                _before = [library.num_threads for library in _controller.lib_controllers]
            for library in _controller.lib_controllers:
                library.set_num_threads(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                for library, n_threads in zip(_controller.lib_controllers, _before or (), strict=True):
                    library.set_num_threads(n_threads)
                # In OpenBLAS, only the thread that changed the setting can undo it. If the last fit to leave could not,
                # remember the old values, and the next one tries again.
                if _before == [library.num_threads for library in _controller.lib_controllers]:
                    _before = None
