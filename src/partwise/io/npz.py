"""NumPy and SciPy files: .npy, .npz. Sizes are checked from the headers, and pickles are never opened."""

import math
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, cast

import numpy as np
import scipy.sparse as sp

from partwise.io.reading import ReadOptions
from partwise.io.source import bad_file, library, refuse_above
from partwise.io.sparse import Array, check_compressed, check_declared, from_compressed, from_coordinates, numeric
from partwise.io.table import Table, labels_beside

_COMPRESSED = ("data", "indices", "indptr", "shape")
_KEYS = {
    "csr": _COMPRESSED,
    "csc": _COMPRESSED,
    "bsr": _COMPRESSED,
    "coo": ("data", "row", "col", "shape"),
    "dia": ("data", "offsets", "shape"),
}
_LABELS = ("row_labels", "column_labels")
METADATA = "metadata/"
"""Texts about samples: all texts as UTF-8, one after the other, and where each one ends."""
_ENDS = ".ends"
_SMALL = 4096


def read_npy(path: Path, options: ReadOptions) -> Table:
    """Read one dense array."""
    with library(path, "a NumPy array"):
        with path.open("rb") as stream:
            declared = _declared_bytes(stream, path, "the array")
            held = path.stat().st_size - stream.tell()
        if declared > held:
            raise bad_file(path, f"its header declares {declared} bytes of values, but it holds {held}")
        refuse_above(options.limit, declared, f"{path}")
        array = np.load(path, allow_pickle=False)
    return labels_beside(Table(_dense(array, path), source=str(path)), path, options, path.stem)


def read_npz(path: Path, options: ReadOptions) -> Table:
    """Read a sparse matrix saved by SciPy, plain CSR (data, indices, indptr, shape), or one dense array."""
    with library(path, "an .npz archive"), zipfile.ZipFile(path) as archive:
        members = _Members(archive, path, options.limit)
        matrix = _matrix(members, path, options)
        labels: dict[str, Any] = {key: _label_member(members, key, path) for key in _LABELS if key in members.keys}
        named = [key for key in members.keys if key.startswith(METADATA) and not key.endswith(_ENDS)]
        known = {key.removeprefix(METADATA): _texts(members, key, path) for key in named}
    table = Table(matrix, **labels, source=str(path), metadata=known)
    for name, texts in known.items():
        if len(texts) != table.shape[0]:
            raise bad_file(path, f"its metadata {name!r} has {len(texts)} texts for {table.shape[0]} rows")
    for key, size in zip(_LABELS, table.shape, strict=True):
        if key in labels and len(labels[key]) != size:
            raise bad_file(path, f"its array {key!r} has {len(labels[key])} labels for {size}")
    return labels_beside(table, path, options, path.stem)


class _Members:
    """Arrays inside the archive. Each is loaded only after the size in its header was accepted."""

    def __init__(self, archive: zipfile.ZipFile, path: Path, limit: int) -> None:
        self.archive, self.path, self.limit = archive, path, limit
        self.infos = {i.filename.removesuffix(".npy"): i for i in archive.infolist() if i.filename.endswith(".npy")}
        self.keys = list(self.infos)
        self.loaded_bytes = 0

    def load(self, key: str, at_most: int | None = None) -> Array:
        info = self.infos[key]
        with self.archive.open(info) as stream:
            declared = _declared_bytes(cast(BinaryIO, stream), self.path, f"array {key!r}")
        if declared > info.file_size:
            raise bad_file(self.path, f"array {key!r} declares {declared} bytes, but holds fewer")
        if at_most is not None and declared > at_most:
            raise bad_file(self.path, f"array {key!r} is far too large for its purpose")
        self.loaded_bytes += declared
        refuse_above(self.limit, self.loaded_bytes, f"{self.path} (up to array {key!r})")
        with self.archive.open(info) as stream:
            return cast(Array, np.lib.format.read_array(cast(BinaryIO, stream), allow_pickle=False))


def _declared_bytes(stream: BinaryIO, path: Path, what: str) -> int:
    """Read the header of an array, refuse pickles, and return the size of its values in bytes."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise bad_file(path, f"{what} has .npy version {version[0]}.{version[1]}", "save a plain array of numbers")
    if dtype.hasobject:
        why = f"{what} holds pickled Python objects, which could run code when opened"
        raise bad_file(path, why, "save an array of numbers instead")
    if any(length < 0 for length in shape):
        raise bad_file(path, f"{what} declares the negative shape {shape}")
    return math.prod(shape) * int(dtype.itemsize)


def _matrix(members: _Members, path: Path, options: ReadOptions) -> Any:
    if "format" in members.keys:
        kind = members.load("format", _SMALL)
        name = kind.item().decode("ascii") if kind.dtype.kind == "S" and kind.ndim == 0 else str(kind)
    elif set(_COMPRESSED) <= set(members.keys):
        name = "csr"
    else:
        arrays = [key for key in members.keys if key not in _LABELS and not key.startswith(METADATA)]
        if len(arrays) != 1:
            remedy = "save it with scipy.sparse.save_npz, or as data, indices, indptr and shape of a CSR matrix"
            raise bad_file(path, f"it holds the arrays {arrays[:8]} and not one matrix", remedy)
        return _dense(members.load(arrays[0]), path)
    if name not in _KEYS:
        raise bad_file(path, f"its sparse format {name!r} is unknown", "save it as csr")
    absent = [key for key in _KEYS[name] if key not in members.keys]
    if absent:
        raise bad_file(path, f"a matrix of format {name} needs the array {absent[0]!r}, which is not there")
    shape = _shape(members.load("shape", _SMALL), path)
    parts = {key: members.load(key) for key in _KEYS[name] if key != "shape"}
    parts["data"] = numeric(parts["data"], path, "array 'data'")
    check_declared(path, shape, parts["data"].size, options.limit, bytes_each=0)
    return _assemble(name, parts, shape, path)


def _shape(array: Array, path: Path) -> tuple[int, int]:
    if array.dtype.kind not in "iu" or array.shape != (2,):
        raise bad_file(path, "its shape is not two integers", "save a matrix with two axes")
    return int(array[0]), int(array[1])


def _assemble(name: str, parts: dict[str, Array], shape: tuple[int, int], path: Path) -> sp.csr_array:
    data = parts["data"]
    if data.ndim != {"bsr": 3, "dia": 2}.get(name, 1):
        raise bad_file(path, f"array 'data' has {data.ndim} axes, which does not fit the format {name}")
    if name == "csr":
        return from_compressed(data, parts["indices"], parts["indptr"], shape, path)
    if name == "csc":
        return sp.csr_array(from_compressed(data, parts["indices"], parts["indptr"], shape[::-1], path).T)
    if name == "bsr":
        return _from_blocks(data, parts["indices"], parts["indptr"], shape, path)
    if name == "dia":
        return _from_diagonals(data, parts["offsets"], shape, path)
    rows, columns = parts["row"], parts["col"]
    for index, size, axis in ((rows, shape[0], "row"), (columns, shape[1], "col")):
        if index.dtype.kind not in "iu" or index.shape != data.shape:
            raise bad_file(path, f"array {axis!r} must hold one integer for each of the {len(data)} values")
        outside = np.flatnonzero((index < 0) | (index >= size))
        if outside.size:
            raise bad_file(path, f"entry {outside[0]} has {axis} {index[outside[0]]}, but the shape is {shape}")
    return from_coordinates((rows, columns, data), shape, path, "sum")


def _from_blocks(data: Array, indices: Array, indptr: Array, shape: tuple[int, int], path: Path) -> sp.csr_array:
    height, width = data.shape[1:]
    if height < 1 or width < 1 or shape[0] % height or shape[1] % width:
        raise bad_file(path, f"blocks of {height} x {width} do not tile a matrix of {shape[0]} x {shape[1]}")
    blocks = (shape[0] // height, shape[1] // width)
    indices, indptr = check_compressed(indices, indptr, blocks, len(data), path)
    entries = sp.bsr_array((data[: len(indices)], indices, indptr), shape=shape).tocoo()
    return from_coordinates((entries.row, entries.col, entries.data), shape, path, "sum")


def _from_diagonals(data: Array, offsets: Array, shape: tuple[int, int], path: Path) -> sp.csr_array:
    if offsets.dtype.kind not in "iu" or offsets.shape != data.shape[:1] or len(np.unique(offsets)) != len(offsets):
        raise bad_file(path, f"array 'offsets' must hold {len(data)} different integers, one for each diagonal")
    if offsets.size and (offsets.min() <= -shape[0] or offsets.max() >= shape[1]):
        raise bad_file(path, f"a diagonal lies outside the shape {shape}")
    return sp.csr_array(sp.dia_array((data, offsets), shape=shape))


def _dense(array: Array, path: Path) -> Array:
    if array.ndim != 2:
        raise bad_file(path, f"its array has {array.ndim} axes", "save a matrix with two axes, samples x features")
    return numeric(array, path, "the array")


def _label_member(members: _Members, key: str, path: Path) -> Array:
    labels = members.load(key)
    if labels.dtype.kind != "U" or labels.ndim != 1:
        raise bad_file(path, f"its array {key!r} does not hold text with one axis", "save it as an array of str")
    return labels


class Pieces(NamedTuple):
    """A one-dimensional array that is written piece by piece, because it need not fit in memory."""

    dtype: Any
    size: int
    pieces: Iterable[Array]


def write_header(file: IO[bytes], dtype: np.dtype[Any], size: int) -> None:
    """Write the header of a one-dimensional .npy file."""
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (size,)}
    np.lib.format.write_array_header_1_0(file, described)


def write_npz(path: Path, arrays: Mapping[str, Array | Pieces]) -> None:
    """Write a compressed archive as ``numpy.savez_compressed`` does.

    Parameters
    ----------
    path
        The file to write.
    arrays
        Arrays by name, whole or in pieces.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                if isinstance(array, Pieces):
                    write_header(member, np.dtype(array.dtype), array.size)
                    for piece in array.pieces:
                        member.write(piece.astype(array.dtype, copy=False).tobytes())
                else:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def encoded_text(text: Any) -> bytes:
    """UTF-8 as texts are stored. A lone surrogate, which a Python string may have, is kept."""
    return str(text).encode("utf-8", "surrogatepass")


def packed_texts(name: str, texts: Any) -> dict[str, Any]:
    """Arrays that hold texts of any length without pickles."""
    encoded = [encoded_text(text) for text in texts]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return text_members(name, np.frombuffer(b"".join(encoded), dtype=np.uint8), ends)


def text_members(name: str, content: Array | Pieces, ends: Array) -> dict[str, Any]:
    """Members of an archive that hold texts: their bytes, and where each text ends."""
    return {f"{METADATA}{name}": content, f"{METADATA}{name}{_ENDS}": ends}


def _texts(members: _Members, key: str, path: Path) -> Array:
    """Undo `packed_texts`."""
    if f"{key}{_ENDS}" not in members.keys:
        raise bad_file(path, f"its array {key!r} lacks the ends of the texts in it")
    data, ends = members.load(key), members.load(f"{key}{_ENDS}")
    if data.dtype != np.uint8 or data.ndim != 1 or ends.dtype != np.int64 or ends.ndim != 1:
        raise bad_file(path, f"its array {key!r} does not hold texts")
    starts = np.concatenate(([0], ends))
    if np.any(np.diff(starts) < 0) or starts[-1] != data.size:
        raise bad_file(path, f"the texts of its array {key!r} do not end where it says")
    content = data.tobytes()
    found = np.empty(ends.size, dtype=object)
    with library(path, "UTF-8 text"):
        bounds = zip(starts, ends, strict=False)
        found[:] = [content[start:end].decode("utf-8", "surrogatepass") for start, end in bounds]
    return found
