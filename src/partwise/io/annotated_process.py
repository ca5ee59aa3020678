"""The small process that opens AnnData: ``python -m partwise.io.annotated_process PATH LIMIT [LAYER]``.

On damaged files the HDF5 library can crash, and zarr's codecs may ask for any amount of memory. In this process that
does no harm, so it imports little. Standard output is one line of JSON (a description of what follows, or of what is
wrong), then the bytes of each array. Before anything is loaded, its declared size is checked, and whether reading it is
safe.
"""

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from partwise.errors import InvalidInputError, PartwiseError
from partwise.io.source import bad_file, refuse_above

# zarr codecs that only rearrange bytes. Others, above all "pickle", could run code when a chunk is decoded.
_SAFE_CODECS = frozenset(
    [
        *("blosc", "zstd", "gzip", "zlib", "lz4", "lzma", "bz2", "shuffle", "delta", "packbits", "transpose"),
        *("bytes", "vlen-utf8", "vlen-bytes", "crc32c", "crc32", "adler32", "fletcher32", "sharding_indexed"),
    ]
)
_BYTES_PER_LABEL = 100

Refuse = Callable[[int], None]
"""Raises an error if this many bytes are more than may be used."""
_SLAB = 2**26
# Memory beyond the data: libraries, threads and a few slabs.
_SPARE = 2**30


class RefusedError(Exception):
    """The file cannot be used: the arguments say what is wrong, and what to do."""


@dataclass(frozen=True)
class Plan:
    """What to read: one array if dense, else data, indices and indptr; names of rows and columns; labels of rows.

    For each column, ``obs`` has the distinct labels, and the position of each row's label among them (-1: no label).
    """

    kind: str
    shape: tuple[int, int]
    arrays: list[Any]
    rows: list[str]
    columns: list[str]
    obs: dict[str, tuple[list[str], list[int]]] = field(default_factory=dict)


def plan(root: Any, path: Path, layer: str | None, limit: int) -> Plan:
    """Find X or a layer, and the names, in an open AnnData tree. The matrix itself is not read yet."""
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
    return Plan(kind, shape, arrays, rows, columns, dict(_row_labels(_child(root, "obs"), shape[0], refuse)))


def _row_labels(frame: Any, n_rows: int, refuse: Refuse) -> Iterator[tuple[str, tuple[list[str], list[int]]]]:
    """Columns of obs that hold categories, text or whole numbers. Columns stored in another way are left out."""
    for name in frame:
        with contextlib.suppress(RefusedError, KeyError):
            element = _child(frame, name)
            if name == _attribute(frame, "_index"):
                continue
            if _is_group(element):
                categories, codes = _texts(_child(element, "categories"), refuse), _child(element, "codes")
                refuse(_check_array(codes))
                numbers = codes[...].tolist()
            elif element.dtype.kind in "biuOUST":
                values = _texts(element, refuse)
                places = {value: at for at, value in enumerate(dict.fromkeys(values))}
                categories, numbers = list(places), [places[value] for value in values]
            else:
                continue
            if len(numbers) == n_rows and all(-1 <= n < len(categories) for n in numbers):
                yield str(name), (categories, numbers)


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
    # HDF5 links may lead to other files. anndata writes none.
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
    """Declared bytes of an array. Refuse it if its values are in another file or decoding could run code."""
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
    """Names in a list of codec descriptions, including those nested in a shard."""
    for entry in entries:
        if not isinstance(entry, dict):
            yield str(getattr(entry, "codec_id", entry))
            continue
        yield str(entry.get("name", entry.get("id"))).removeprefix("numcodecs.")
        configuration = entry.get("configuration") or {}
        if isinstance(configuration, dict):
            yield from _codec_names(configuration.get("codecs") or [])
            yield from _codec_names(configuration.get("index_codecs") or [])


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
    except Exception as error:  # the libraries can raise anything on a damaged file
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
    """Allow this process this many more bytes, because a damaged chunk may ask for more than it declares."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # some systems have no such limit
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[5])
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (pages * resource.getpagesize() + n_bytes, most))


def _describe(found: Plan) -> dict[str, Any]:
    arrays = [[array.dtype.newbyteorder("<").str, list(array.shape)] for array in found.arrays]
    names = {"rows": found.rows, "columns": found.columns, "obs": found.obs}
    return {"kind": found.kind, "shape": found.shape, **names, "arrays": arrays}


def _say(output: BinaryIO, answer: dict[str, Any]) -> None:
    output.write(json.dumps(answer).encode() + b"\n")
    output.flush()


def _send(array: Any, output: BinaryIO) -> None:
    """Write the values slab by slab, so that they are never all in memory."""
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
