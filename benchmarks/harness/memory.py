"""The rise in peak memory during one fit, measured in this process: run as a module, prints JSON."""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.harness.data import by_key
from benchmarks.harness.measuring import compile_kernels


def status(field: str) -> int:
    """A field of this process's status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return 1024 * int(value.split()[0])
    raise LookupError(f"/proc/self/status has no field {field}")


def settle() -> None:
    """Give memory that was freed back to the system: what a fit takes must show as a rise."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def main(key: str, n_components: int, inference: str, n_threads: int) -> None:
    """Print the rise and the size of the matrix with both factors, in bytes."""
    from partwise import PoissonNMF

    counts = by_key(key).load()
    settings: dict[str, Any] = {"init": "random", "random_state": 0, "max_iter": 15, "tol": 0.0, "n_jobs": n_threads}
    compile_kernels(**settings)
    model = PoissonNMF(n_components, inference=inference, progress=False, **settings)
    settle()
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from what is held now
    model.fit(counts)
    rise = status("VmHWM") - before
    matrix = counts.data.nbytes + counts.indices.nbytes + counts.indptr.nbytes
    factors = 8 * n_components * sum(counts.shape)
    json.dump({"rise": rise, "size": matrix + factors}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
