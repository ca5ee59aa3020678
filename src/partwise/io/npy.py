"""Arrays of .npy files, for threads too."""

from __future__ import annotations

import os
import threading
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

# NumPy reads headers by `ast.literal_eval`, of which Python 3.11 counts the depth for all threads together: two that
# read at the same time, and are interrupted by the garbage collector, can end in "recursion depth mismatch".
_ONE_AT_A_TIME = threading.Lock()


def load_npy(path: str | os.PathLike[str], mmap_mode: Literal["r", "c"] | None = None) -> NDArray[Any]:
    """`numpy.load` of one array, never a pickle.

    Parameters
    ----------
    path
        The file.
    mmap_mode
        Map it into memory: to read ("r"), or to change in memory alone ("c").

    Examples
    --------
    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.npy")
    >>> np.save(path, np.arange(3))
    >>> load_npy(path)
    array([0, 1, 2])
    """
    with _ONE_AT_A_TIME:
        array: NDArray[Any] = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    return array
