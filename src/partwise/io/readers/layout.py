"""How AnnData lays out a matrix and its names in a tree of groups and arrays, be it HDF5 or zarr.

This runs in the small process that opens HDF5 files, so it imports little. Nothing is loaded
before its declared size, and whether reading it is safe, has been checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from partwise.errors import InvalidInputError
from partwise.io.limits import refuse_above

# Codecs of zarr that only rearrange bytes. Others, "pickle" above all, could run code when a chunk is decoded.
_SAFE_CODECS = frozenset(
    [
        *("blosc", "zstd", "gzip", "zlib", "lz4", "lzma", "bz2", "shuffle", "delta", "packbits", "transpose"),
        *("bytes", "vlen-utf8", "vlen-bytes", "crc32c", "crc32", "adler32", "fletcher32", "sharding_indexed"),
    ]
)
_BYTES_PER_LABEL = 100

Refuse = Callable[[int], None]
"""Refuses so many bytes if that is more than may be used."""


class RefusedError(Exception):
    """The file cannot be used: the arguments say what is wrong, and what to do."""


@dataclass(frozen=True)
class Plan:
    """What to read: one array if dense, else data, indices and indptr; and the names of rows and columns."""

    kind: str
    shape: tuple[int, int]
    arrays: list[Any]
    rows: list[str]
    columns: list[str]


def plan(root: Any, path: Path, layer: str | None, limit: int) -> Plan:
    """Find X or a layer and the names in an open AnnData tree; the matrix itself is not read yet."""
    if not _is_group(root) or "obs" not in root or "var" not in root:
        raise RefusedError("it has no obs and var, so it is not an AnnData file", "write it with anndata")
    if layer is not None:
        layers = sorted(_child(root, "layers").keys()) if "layers" in root else []
        if layer not in layers:
            raise InvalidInputError(f"layer={layer!r} is not in {path}; its layers are: {', '.join(layers) or 'none'}.")
        element = _child(_child(root, "layers"), layer)
    elif "X" in root:
        element = _child(root, "X")
    else:
        raise RefusedError("it has no X", "name one of its layers with layer=")
    refuse = partial(refuse_above, limit, where=str(path))
    kind, shape, arrays = _matrix(element)
    refuse(8 * sum(shape) + sum(_check_array(array) for array in arrays))
    rows, columns = (_names(_child(root, part), part, refuse) for part in ("obs", "var"))
    for labels, size, part in ((rows, shape[0], "obs"), (columns, shape[1], "var")):
        if len(labels) != size:
            raise RefusedError(f"{part} has {len(labels)} names where the matrix has {size}")
    return Plan(kind, shape, arrays, rows, columns)


def _matrix(element: Any) -> tuple[str, tuple[int, int], list[Any]]:
    if _is_group(element):
        kind = str(_attribute(element, "encoding-type", "h5sparse_format")).removesuffix("_matrix")
        shape = _attribute(element, "shape", "h5sparse_shape")
        if kind not in {"csr", "csc"} or shape is None:
            raise RefusedError(f"its matrix is stored as {kind}", "write a dense, csr or csc matrix")
        arrays = [_child(element, name) for name in ("data", "indices", "indptr")]
    else:
        kind, shape, arrays = "dense", element.shape, [element]
    if len(shape) != 2 or min(shape) < 0:
        raise RefusedError(f"its matrix has the shape {tuple(shape)}", "write a matrix with two axes")
    for array in arrays:
        if _is_group(array) or array.dtype.kind not in "biuf":
            raise RefusedError("its matrix does not hold plain numbers", "save real numbers")
    return kind, (int(shape[0]), int(shape[1])), arrays


def _names(frame: Any, part: str, refuse: Refuse) -> list[str]:
    """The index of obs or var."""
    index = _attribute(frame, "_index") if _is_group(frame) else None
    if index is None or index not in list(frame):
        raise RefusedError(f"{part} has no index, as in files of anndata before 0.7", "write it with a newer anndata")
    element = _child(frame, index)
    if not _is_group(element):
        return _texts(element, refuse)
    if "categories" in element:
        return _chosen(_texts(_child(element, "categories"), refuse), _child(element, "codes"), part, refuse)
    if "values" in element:
        return _texts(_child(element, "values"), refuse)
    raise RefusedError(f"the index of {part} is stored in an unknown way", "turn it into plain text and write it again")


def _chosen(categories: list[str], codes: Any, part: str, refuse: Refuse) -> list[str]:
    refuse(_check_array(codes) + _BYTES_PER_LABEL * math.prod(codes.shape))
    numbers = codes[...].tolist()
    if not all(isinstance(n, int) and 0 <= n < len(categories) for n in numbers):
        raise RefusedError(f"the index of {part} has codes without a category")
    return [categories[n] for n in numbers]


def _texts(array: Any, refuse: Refuse) -> list[str]:
    if _is_group(array) or len(array.shape) != 1:
        raise RefusedError("the names of rows or columns do not form a list")
    refuse(_check_array(array) + _BYTES_PER_LABEL * math.prod(array.shape))
    return [value.decode("utf-8") if isinstance(value, bytes) else str(value) for value in array[...].tolist()]


def _child(group: Any, name: str) -> Any:
    # HDF5 links may lead to other files; anndata writes none.
    if hasattr(group, "file") and type(group.get(name, getlink=True)).__name__ != "HardLink":
        raise RefusedError(f"its part {name!r} is a link", "copy the data into one file")
    return group[name]


def _is_group(element: Any) -> bool:
    return not hasattr(element, "dtype")


def _attribute(group: Any, *names: str) -> Any:
    for name in names:
        if name in group.attrs:
            value = group.attrs[name]
            return value.decode("utf-8") if isinstance(value, bytes) else value
    return None


def _check_array(array: Any) -> int:
    """Declared bytes of an array; refused if its values lie in another file or decoding could run code."""
    if getattr(array, "external", None) or getattr(array, "is_virtual", False):
        raise RefusedError("its values lie in another file", "copy the data into one file")
    foreign = sorted(set(_codecs(array)) - _SAFE_CODECS)
    if foreign:
        raise RefusedError(f"it is encoded with {foreign[0]!r}", "write it again with the usual compression")
    return math.prod(int(length) for length in array.shape) * int(getattr(array.dtype, "itemsize", 8))


def _codecs(array: Any) -> Iterator[str]:
    """Names of the codecs of a zarr array; HDF5 filters are compiled into the library."""
    metadata = getattr(array, "metadata", None)
    if metadata is not None:
        described = metadata.to_dict()
        listed = [*(described.get("filters") or []), described.get("compressor"), *(described.get("codecs") or [])]
        yield from _codec_names([entry for entry in listed if entry is not None])


def _codec_names(entries: Any) -> Iterator[str]:
    """Names in a list of codec descriptions, those nested in a shard too."""
    for entry in entries:
        if not isinstance(entry, dict):
            yield str(getattr(entry, "codec_id", entry))
            continue
        yield str(entry.get("name", entry.get("id"))).removeprefix("numcodecs.")
        configuration = entry.get("configuration") or {}
        if isinstance(configuration, dict):
            yield from _codec_names(configuration.get("codecs") or [])
            yield from _codec_names(configuration.get("index_codecs") or [])
