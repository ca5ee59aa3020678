"""The small process that opens AnnData: ``python -m partwise.io.readers.annotated_process PATH LIMIT [LAYER]``.

On damaged files the HDF5 library can crash, and the codecs of zarr ask for any amount of memory. They do so here,
where they take nobody's work along. Standard output is one line of JSON (what follows, or what is wrong), then the
bytes of each array.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
from pathlib import Path
from typing import Any, BinaryIO

from partwise.errors import PartwiseError
from partwise.io.readers.layout import Plan, RefusedError, plan
from partwise.io.source import bad_file

_SLAB = 2**26
# Beside what is read: libraries, threads and a few slabs.
_SPARE = 2**30


def main(arguments: list[str], output: BinaryIO) -> None:
    """Answer with the matrix and names of one file."""
    path, limit, *layer = arguments
    try:
        with _opened(Path(path)) as file:
            _hold(int(limit) + _SPARE)
            found = plan(file, Path(path), layer[0] if layer else None, int(limit))
            _say(output, _describe(found))
            for array in found.arrays:
                _send(array, output)
    except FileNotFoundError:
        _refuse(output, bad_file(Path(path), "a part of it is missing"))
    except RefusedError as error:
        _refuse(output, bad_file(Path(path), *error.args))
    except PartwiseError as error:
        _refuse(output, error)
    except Exception as error:  # whatever the libraries raise on a damaged file
        _say(output, {"failed": str(error) or type(error).__name__})


def _refuse(output: BinaryIO, error: PartwiseError) -> None:
    _say(output, {"refused": [type(error).__name__, str(error)]})


def _opened(path: Path) -> contextlib.AbstractContextManager[Any]:
    if path.is_dir():
        import zarr

        return contextlib.nullcontext(zarr.open_group(str(path), mode="r"))
    import h5py

    opened: contextlib.AbstractContextManager[Any] = h5py.File(path, "r")
    return opened


def _hold(n_bytes: int) -> None:
    """Let this process take so many more bytes, and fail beyond: a damaged chunk may ask for more than was declared."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # where the system has no such limit
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[5])
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (pages * resource.getpagesize() + n_bytes, most))


def _describe(found: Plan) -> dict[str, Any]:
    arrays = [[array.dtype.newbyteorder("<").str, list(array.shape)] for array in found.arrays]
    return {"kind": found.kind, "shape": found.shape, "rows": found.rows, "columns": found.columns, "arrays": arrays}


def _say(output: BinaryIO, answer: dict[str, Any]) -> None:
    output.write(json.dumps(answer).encode() + b"\n")
    output.flush()


def _send(array: Any, output: BinaryIO) -> None:
    """Write the values slab by slab, so that they are never held whole here."""
    if not math.prod(array.shape):
        return
    bytes_each = array.dtype.itemsize * math.prod(array.shape[1:])
    step = max(_SLAB // bytes_each, 1)
    for start in range(0, array.shape[0], step):
        slab = array[start : start + step]
        output.write(slab.astype(slab.dtype.newbyteorder("<"), copy=False).tobytes())
    output.flush()


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdout.buffer)
