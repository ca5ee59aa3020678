"""The small process that opens HDF5 files: ``python -m partwise.io.readers.hdf5_process PATH LIMIT [LAYER]``.

The HDF5 library can crash on a damaged file. It does so here, where it takes nobody's work along. Standard output is
one line of JSON (what follows, or what is wrong), then the bytes of each array.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any, BinaryIO

from partwise.io.readers.layout import Plan, RefusedError, TooLargeError, UnknownLayerError, plan

_SLAB = 2**26


def main(arguments: list[str], output: BinaryIO) -> None:
    """Answer with the matrix and names of one file."""
    import h5py

    path, limit, *layer = arguments
    try:
        with h5py.File(path, "r") as file:
            found = plan(file, layer[0] if layer else None, int(limit))
            _say(output, _describe(found))
            for array in found.arrays:
                _send(array, output)
    except RefusedError as error:
        _say(output, {"refused": [error.what, error.remedy]})
    except TooLargeError as error:
        _say(output, {"too_large": error.declared})
    except UnknownLayerError as error:
        _say(output, {"layers": error.layers})
    except Exception as error:  # whatever h5py raises on a damaged file
        _say(output, {"failed": str(error) or type(error).__name__})


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
