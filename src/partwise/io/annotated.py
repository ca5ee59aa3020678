"""AnnData files, .h5ad (HDF5) and .zarr: read the requested matrix and the names, and add results."""

import errno
import functools
import io
import json
import math
import os
import shutil
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from partwise import errors
from partwise.errors import InvalidInputError
from partwise.io.annotated_process import Plan
from partwise.io.atomic import write_atomically
from partwise.io.optional import require
from partwise.io.reading import ReadOptions
from partwise.io.source import bad_file, check_regular, library
from partwise.io.sparse import Array, from_compressed, numeric
from partwise.io.table import Labels, Table, label_array
from partwise.io.writing_tables import checked_labels

_PROCESS = "partwise.io.annotated_process"
_IN_MEMORY = 2**28
Names = Mapping[str, Sequence[str] | Labels | None]
"""``row_labels`` and ``column_labels``."""
ACTIVATIONS_KEY, DICTIONARY_KEY, METADATA_KEY = "X_partwise", "partwise", "partwise"


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
    """Read in a separate process, because a damaged file may crash it."""
    arguments = [str(path), str(options.limit), *([] if options.layer is None else [options.layer])]
    command = [sys.executable, "-W", "ignore", "-P", "-m", _PROCESS, *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=environment) as process:
        try:
            found, arrays = _receive(cast(io.BufferedReader, process.stdout), path, kind)
        except BaseException:
            process.kill()
            raise
    return _table(found, arrays, path, options.limit)


def _receive(stream: io.BufferedReader, path: Path, kind: str) -> tuple[Plan, list[Array]]:
    """Take over the result of that process."""
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
        return Plan(answer["kind"], (rows, columns), [], answer["rows"], answer["columns"], answer["obs"]), arrays


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
        metadata={
            name: np.array([*categories, ""], dtype=np.str_)[codes] for name, (categories, codes) in found.obs.items()
        },
    )


def write_h5ad(
    path: str | os.PathLike[str],
    *,
    matrix: Any = None,
    activations: Any = None,
    dictionary: Any = None,
    metadata: Mapping[str, Any] | None = None,
    row_labels: Sequence[str] | Labels | None = None,
    column_labels: Sequence[str] | Labels | None = None,
    base: str | os.PathLike[str] | None = None,
) -> None:
    """Write an .h5ad file with results, completely or not at all.

    Parameters
    ----------
    path
        The file to write; it may be ``base`` itself.
    matrix
        Samples x features, dense or sparse, for X. With ``base``, X stays as it is there.
    activations
        Samples x parts, for ``obsm["X_partwise"]``.
    dictionary
        Features x parts, for ``varm["partwise"]``.
    metadata
        Plain data (numbers, text, lists, dicts) for ``uns["partwise"]``; None is left out.
    row_labels, column_labels
        Names of samples and features; by default positions from 0. With ``base`` they must be its names.
    base
        An existing .h5ad file to which the results are added; everything in it is kept.

    Raises
    ------
    InvalidInputError
        Shapes or names do not fit each other or ``base``.
    MissingDependencyError
        anndata is not installed.
    """
    anndata = require("anndata", "anndata", "writing .h5ad files")
    results = {"activations": _two_axes(activations, "activations"), "dictionary": _two_axes(dictionary, "dictionary")}
    with warnings.catch_warnings():
        # anndata warns about repeated names, which we keep, and about its own future.
        warnings.simplefilter("ignore")
        names = {"row_labels": row_labels, "column_labels": column_labels}
        data = _new(anndata, matrix, results, names) if base is None else _opened(anndata, Path(base), names)
        for name, size in (("activations", data.n_obs), ("dictionary", data.n_vars)):
            if results[name] is not None and len(results[name]) != size:
                raise InvalidInputError(f"{name} has {len(results[name])} rows where the file has {size}.")
        if results["activations"] is not None:
            data.obsm[ACTIVATIONS_KEY] = results["activations"]
        if results["dictionary"] is not None:
            data.varm[DICTIONARY_KEY] = results["dictionary"]
        if metadata is not None:
            data.uns[METADATA_KEY] = _storable(metadata)
        write_atomically(path, functools.partial(_write_hdf5, anndata, data))


def _write_hdf5(anndata: Any, data: Any, aside: Path) -> None:
    """Write a file so that a full disk is an error: HDF5 crashes the process after a failed write.

    A small file is first built in memory. A large one needs a disk with enough free space.
    """
    import h5py

    size = data.__sizeof__()
    if size <= _IN_MEMORY:
        data.strings_to_categoricals()
        with h5py.File(aside.name, "w", driver="core", backing_store=False, block_size=2**20) as file:
            anndata.io.write_elem(file, "/", data)
            file.flush()
            aside.write_bytes(file.id.get_file_image())
        return
    if shutil.disk_usage(aside.parent).free < size * 1.1:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    data.write_h5ad(aside)


def _new(anndata: Any, matrix: Any, results: Mapping[str, Any], names: Names) -> Any:
    import pandas as pd

    if matrix is None:
        shape = tuple(0 if array is None else len(array) for array in (results["activations"], results["dictionary"]))
    else:
        shape = matrix.shape
    known = [checked_labels(labels, size, name) for (name, labels), size in zip(names.items(), shape, strict=True)]
    obs, var = (pd.DataFrame(index=pd.Index(labels.tolist(), dtype=object)) for labels in known)
    return anndata.AnnData(X=sp.csr_matrix(matrix) if sp.issparse(matrix) else matrix, obs=obs, var=var)


def _opened(anndata: Any, base: Path, names: Names) -> Any:
    check_regular(base)
    with library(base, "an .h5ad file"):
        data = anndata.read_h5ad(base)
    for (name, labels), own in zip(names.items(), (data.obs_names, data.var_names), strict=True):
        if labels is None:
            continue
        given = checked_labels(labels, len(own), name)
        different = np.flatnonzero(given != np.asarray(own, dtype=np.str_))
        if different.size:
            first = int(different[0])
            raise InvalidInputError(
                f"{name} differ from {base}, first at position {first} ({str(given[first])!r}, there {own[first]!r}); "
                "give the file that the results belong to."
            )
    return data


def _two_axes(values: Any, name: str) -> Any:
    if values is None:
        return None
    array = np.asarray(values)
    if array.ndim != 2:
        raise InvalidInputError(f"{name} has {array.ndim} axes; it needs two.")
    return array


def _storable(value: Any) -> Any:
    """Convert plain data to what AnnData can store: dicts of scalars and arrays. Mixed lists become JSON text."""
    if isinstance(value, Mapping):
        kept = {str(key).replace("/", "_"): item for key, item in value.items() if item is not None}
        return {key: _storable(item) for key, item in kept.items()}
    if isinstance(value, list | tuple):
        kinds = {type(item) for item in value}
        plain = kinds <= {int, float} or kinds in ({bool}, {str})
        return np.array(value) if plain else json.dumps(value, default=str)
    return value
