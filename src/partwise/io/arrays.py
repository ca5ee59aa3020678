"""Arrays, labels and metadata in one safetensors file, and the one function that opens .npy files."""

import itertools
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from partwise.errors import FileFormatError, InvalidInputError
from partwise.io.atomic import FilePath, write_atomically
from partwise.io.source import bad_file, bytes_allowed, check_regular, library, refuse_above

FORMAT_VERSION = 1
Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

_HEADER_KEY = "partwise"
_SEPARATOR = "::"
_TEXT, _OFFSETS, _METADATA = "::utf8", "::offsets", "::metadata"
# The format limits the header to 100 MB and readers load it first, so larger metadata become an array of bytes.
_METADATA_IN_HEADER = 2**16
_DTYPES = frozenset(
    ["bool", "complex64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))]
    + [f"float{bits}" for bits in (16, 32, 64)]
)
# NumPy reads headers with `ast.literal_eval`, and Python 3.11 counts its depth across all threads. If the garbage
# collector interrupts two threads that read at the same time, they can fail with "recursion depth mismatch".
_ONE_AT_A_TIME = threading.Lock()


def save_arrays(path: FilePath, arrays: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> None:
    """Write named arrays and metadata to one safetensors file, completely or not at all. Equal content, equal bytes.

    Parameters
    ----------
    path
        The file to write.
    arrays
        Numeric or boolean arrays of any shape, and one-dimensional arrays of str (labels).
    metadata
        Anything that JSON can hold. NumPy scalars are accepted, and tuples come back as lists.

    Raises
    ------
    InvalidInputError
        A name, an array or the metadata cannot be stored.

    Examples
    --------
    >>> import os, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> save_arrays(path, {"dictionary": np.eye(2), "labels": np.array(["a", "é"])}, {"seed": 7})
    >>> arrays, metadata = load_arrays(path)
    >>> arrays["labels"].tolist(), metadata
    (['a', 'é'], {'seed': 7})
    """
    from safetensors.numpy import save_file

    tensors: Arrays = {}
    for name, value in arrays.items():
        tensors.update(_encode(name, value))
    header: dict[str, Any] = {"format_version": FORMAT_VERSION}
    text = _to_json({} if metadata is None else metadata)
    if len(text) <= _METADATA_IN_HEADER:
        header["metadata"] = json.loads(text)
    else:
        tensors[_METADATA] = np.frombuffer(text, dtype=np.uint8)
    # One key only: with several, the library's order changes from run to run.
    in_header = {_HEADER_KEY: _to_json(header).decode()}
    write_atomically(path, lambda aside: save_file(tensors, aside, metadata=in_header))


def load_arrays(path: FilePath, *, memory_limit: int | float | str | None = None) -> tuple[Arrays, dict[str, Any]]:
    """Read a file written by `save_arrays`. Nothing in it is ever executed.

    Parameters
    ----------
    path
        The file to read.
    memory_limit
        Bytes that may be used (or text such as ``"8 GB"``); see `partwise.io.source.bytes_allowed`.

    Returns
    -------
    arrays, metadata
        What was saved.

    Raises
    ------
    FileFormatError
        The file is truncated, damaged, hostile, foreign, or of a newer version.
    FileNotFoundError
        There is no such file.
    """
    path, limit = Path(path), bytes_allowed(memory_limit)
    tensors, header = _load_tensors(path, limit)
    metadata = header.get("metadata", {})
    if _METADATA in tensors:
        metadata = _from_json(_as_bytes(tensors.pop(_METADATA), path, "its metadata"), path)
    if not isinstance(metadata, dict):
        raise bad_file(path, "its metadata are not a JSON object")
    arrays: Arrays = {}
    for name in sorted(tensors):
        if name.endswith(_TEXT):
            label = name.removesuffix(_TEXT)
            arrays[label] = _decode_text(tensors[name], tensors.get(label + _OFFSETS), path, label, limit)
        elif _SEPARATOR not in name:
            arrays[name] = tensors[name]
        elif not (name.endswith(_OFFSETS) and name.removesuffix(_OFFSETS) + _TEXT in tensors):
            raise bad_file(path, f"it holds an array {name!r} of unknown meaning")
    return arrays, metadata


def _load_tensors(path: Path, limit: int) -> tuple[Arrays, dict[str, Any]]:
    from safetensors import safe_open

    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory; give the name of a file.")
    check_regular(path)
    refuse_above(limit, path.stat().st_size, f"{path}")
    with library(path, "a safetensors file"), safe_open(path, framework="np") as file:
        in_header = (file.metadata() or {}).get(_HEADER_KEY)
        if in_header is None:
            raise FileFormatError(f"{path} is a safetensors file, but not of partwise; give one that partwise wrote.")
        header = _from_json(in_header, path)
        _check_version(header, path)
        return {name: file.get_tensor(name) for name in file.keys()}, header  # noqa: SIM118 - not a dict


def _check_version(header: Any, path: Path) -> None:
    version = header.get("format_version") if isinstance(header, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise bad_file(path, "its header has no format_version")
    if version > FORMAT_VERSION:
        raise FileFormatError(
            f"{path} has format version {version} and this partwise reads up to {FORMAT_VERSION}; upgrade partwise."
        )


def _encode(name: str, value: Any) -> Arrays:
    if not name or _SEPARATOR in name or name == "__metadata__":
        raise InvalidInputError(f"an array cannot be named {name!r}; choose a name without '::'.")
    array = np.asarray(value, order="C")
    if array.dtype.kind in "UT":
        if array.ndim != 1:
            raise InvalidInputError(f"array {name!r} holds text with {array.ndim} axes; labels must have one axis.")
        encoded = [text.encode("utf-8", "surrogatepass") for text in array.tolist()]
        offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        return {name + _TEXT: np.frombuffer(b"".join(encoded), dtype=np.uint8), name + _OFFSETS: offsets}
    if array.dtype.name not in _DTYPES:
        raise InvalidInputError(
            f"array {name!r} has dtype {array.dtype}, which cannot be stored; convert it to numbers or to str."
        )
    return {name: array.astype(array.dtype.newbyteorder("<"), copy=False)}


def _decode_text(text: Array, offsets: Array | None, path: Path, name: str, limit: int) -> Array:
    raw = _as_bytes(text, path, f"label array {name!r}")
    if offsets is None or offsets.dtype != np.int64 or offsets.ndim != 1 or not len(offsets):
        raise bad_file(path, f"label array {name!r} has no offsets")
    lengths = np.diff(offsets)
    if offsets[0] != 0 or offsets[-1] != len(raw) or (lengths < 0).any():
        raise bad_file(path, f"the offsets of label array {name!r} do not fit its text")
    # In a NumPy array of str, every label takes the space of the longest one, at four bytes per character.
    refuse_above(limit, 4 * len(lengths) * int(lengths.max(initial=0)), f"{path}: label array {name!r}")
    bounds = offsets.tolist()
    try:
        labels = [raw[start:end].decode("utf-8", "surrogatepass") for start, end in itertools.pairwise(bounds)]
    except UnicodeDecodeError as error:
        raise bad_file(path, f"label array {name!r} is not UTF-8") from error
    return np.array(labels, dtype=np.str_)


def _as_bytes(array: Array, path: Path, what: str) -> bytes:
    if array.dtype != np.uint8 or array.ndim != 1:
        raise bad_file(path, f"{what} should be bytes")
    return array.tobytes()


def _to_json(value: Any) -> bytes:
    try:
        return json.dumps(value, default=_plain, sort_keys=True, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        told = f"metadata cannot be written as JSON ({error})"
        raise InvalidInputError(f"{told}: use plain numbers, text and lists.") from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} {value!r} is not plain data")


def _from_json(text: str | bytes, path: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad_file(path, "its metadata are not JSON") from error


def load_npy(path: FilePath, mmap_mode: Literal["r", "c"] | None = None) -> NDArray[Any]:
    """`numpy.load` for one array, never a pickle.

    Parameters
    ----------
    path
        The file.
    mmap_mode
        Map it into memory: to read ("r"), or to change in memory alone ("c").

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.npy")
    >>> np.save(path, np.arange(3))
    >>> load_npy(path)
    array([0, 1, 2])
    """
    with _ONE_AT_A_TIME:
        array: NDArray[Any] = np.load(path, mmap_mode=mmap_mode, allow_pickle=False)
    return array
