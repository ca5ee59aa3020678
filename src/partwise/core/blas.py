"""Hold the linear algebra libraries to one thread while the threads of partwise are at work."""

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
                # OpenBLAS lets no other thread undo what one has set. If the last to leave could not, what was before
                # is kept in mind, and the next to leave tries again.
                if _before == [library.num_threads for library in _controller.lib_controllers]:
                    _before = None
