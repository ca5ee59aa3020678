"""AnnData files: .h5ad (HDF5) and .zarr. Only the matrix that is asked for and the names are read."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from partwise import errors
from partwise.io.labels import label_array
from partwise.io.optional import require
from partwise.io.options import ReadOptions
from partwise.io.readers.layout import Plan
from partwise.io.source import bad_file, library
from partwise.io.sparse import Array, from_compressed, numeric
from partwise.io.table import Table

_PROCESS = "partwise.io.readers.annotated_process"


def read_h5ad(path: Path, options: ReadOptions) -> Table:
    """Read X, or a layer, of an .h5ad file."""
    require("h5py", "anndata", "reading .h5ad files")
    return _read(path, options, "an .h5ad file")


def read_zarr(path: Path, options: ReadOptions) -> Table:
    """Read X, or a layer, of an AnnData .zarr directory."""
    if not path.is_dir():
        raise bad_file(path, "it is not a directory", "give the .zarr directory")
    require("zarr", "anndata", "reading .zarr directories")
    return _read(path, options, "an AnnData .zarr directory")


def _read(path: Path, options: ReadOptions, kind: str) -> Table:
    """Read in a process of its own, which a damaged file may crash."""
    arguments = [str(path), str(options.limit), *([] if options.layer is None else [options.layer])]
    command = [sys.executable, "-W", "ignore", "-P", "-m", _PROCESS, *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=environment
    ) as process:
        try:
            found, arrays = _receive(cast(io.BufferedReader, process.stdout), path, kind)
        except BaseException:
            process.kill()
            raise
    return _table(found, arrays, path, options.limit)


def _receive(stream: io.BufferedReader, path: Path, kind: str) -> tuple[Plan, list[Array]]:
    """Take over what the process found."""
    try:
        answer: dict[str, Any] = json.loads(stream.readline())
    except ValueError:
        raise bad_file(path, f"it is so damaged, or so far from {kind}, that its library fails on it") from None
    if "refused" in answer:
        name, sentence = answer["refused"]
        raise getattr(errors, name)(sentence)
    with library(path, kind):
        if "failed" in answer:
            raise ValueError(answer["failed"])
        rows, columns = answer["shape"]
        arrays = [_receive_array(stream, dtype, shape) for dtype, shape in answer["arrays"]]
        return Plan(answer["kind"], (rows, columns), [], answer["rows"], answer["columns"]), arrays


def _receive_array(stream: io.BufferedReader, dtype: str, shape: list[int]) -> Array:
    array = np.empty(math.prod(shape), dtype=dtype)
    target = memoryview(cast(Any, array.view(np.uint8)))
    filled = 0
    while filled < len(target):
        count = stream.readinto(target[filled:])
        if not count:
            raise EOFError("it ends in the middle of the values")
        filled += count
    return array.reshape(shape)


def _table(found: Plan, arrays: list[Array], path: Path, limit: int) -> Table:
    data = numeric(arrays[0], path, "its matrix")
    matrix: Any = data
    if found.kind != "dense":
        if data.ndim != 1:
            raise bad_file(path, f"the values of its sparse matrix have {data.ndim} axes")
        shape = found.shape if found.kind == "csr" else found.shape[::-1]
        matrix = from_compressed(data, arrays[1], arrays[2], shape, path)
    return Table(
        sp.csr_array(matrix.T) if found.kind == "csc" else matrix,
        row_labels=label_array(found.rows, path, limit),
        column_labels=label_array(found.columns, path, limit),
        source=str(path),
    )
