"""Kernels with a planted bug: the source of the real one, one place changed, compiled anew."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numba


def mutant(kernel: Any, changes: dict[str, str]) -> Callable[..., Any]:
    """The kernel with each key of ``changes`` (which must occur in its source) replaced wherever it stands."""
    source = textwrap.dedent(inspect.getsource(kernel.py_func))
    for original, planted in changes.items():
        assert original in source, f"{original!r} is not in {kernel.__name__}"
        source = source.replace(original, planted)
    namespace = dict(vars(sys.modules[kernel.__module__]))
    namespace["kernel"] = namespace["inner_kernel"] = numba.njit(nogil=True, error_model="numpy")
    exec(source, namespace)
    changed: Callable[..., Any] = namespace[kernel.__name__]
    return changed
