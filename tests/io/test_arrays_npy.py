"""Headers of .npy files are read by one thread at a time: Python 3.11 breaks where two do."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The collector's callback lets another thread go on in the middle of reading a header.
_SCRIPT = """
import gc, os, sys, tempfile, threading, time
import numpy as np
from partwise.io.arrays import load_npy

load = {"plain": np.load, "guarded": load_npy}[sys.argv[1]]
path = os.path.join(tempfile.mkdtemp(), "a.npy")
np.save(path, np.zeros((3, 4)))
errors, end = [], time.monotonic() + float(sys.argv[2])


def work():
    while not errors and time.monotonic() < end:
        try:
            load(path)
        except SystemError as error:
            errors.append(error)


sys.setswitchinterval(1e-6)
gc.set_threshold(1)
gc.callbacks.append(lambda *unused: time.sleep(0))
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(errors))
"""


def _n_errors(kind: str, seconds: float) -> int:
    command = [sys.executable, "-c", _SCRIPT, kind, str(seconds)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_threads_read_headers_one_at_a_time() -> None:
    assert _n_errors("guarded", 2.0) == 0


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python 3.12 counts the depth otherwise")
def test_numpy_alone_breaks() -> None:
    """Ends with the first error, usually within a second."""
    assert _n_errors("plain", 60.0) > 0
