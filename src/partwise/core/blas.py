"""Hold the linear algebra libraries to one thread while the threads of partwise are at work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_inside = 0
_limiter: Any = None
_controller: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within this context BLAS uses one thread: no oversubscription, and bits that do not depend on the cores.

    The libraries' setting is one for the whole process: the first fit that enters changes it, the last that leaves
    restores it.
    """
    global _inside, _limiter, _controller
    with _lock:
        if _inside == 0:
            if _controller is None:
                from threadpoolctl import ThreadpoolController

                # Looking for the libraries takes milliseconds, setting them microseconds: look once.
                _controller = ThreadpoolController()
            _limiter = _controller.limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limiter.restore_original_limits()
                _limiter = None
