"""The workers of a cluster write rows: first each its own part, then each some ranges of the whole folder.

The client sees descriptions of the parts, never the data.
"""

import itertools
import os
import shutil
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from partwise.core.validation import heard_warnings
from partwise.engines.base import Function
from partwise.engines.cluster import abandon
from partwise.errors import EngineError, InvalidInputError, LogNormalisedWarning
from partwise.io.arrays import load_npy
from partwise.io.atomic import FilePath
from partwise.io.npz import write_header
from partwise.storage.csr_folder import POINTERS, Description, new_folder
from partwise.storage.sources import DataRules, UnreadRows, checked
from partwise.storage.writing import save_arrays, save_rows

# Files are cut at the edges of memory pages, so that no two processes write to the same page: network file systems
# would mix up their writes.
_RANGE_BYTES = 2**26
_COPIED_AT_ONCE = 2**20


class _Part(NamedTuple):
    """Rows that a worker has written: where, their description, and warnings from their check."""

    folder: str
    description: Description
    warned: tuple[str, ...]


class _Source(NamedTuple):
    """A file of a part, the position of its first number in the whole array, their number, and the offset to add."""

    path: str
    first: int
    size: int
    added: int


def write_by_workers(engine: Any, blocks: Sequence[UnreadRows], folder: FilePath, rules: DataRules) -> None:
    """Let workers read, check and write blocks of rows, and join the results into one folder.

    Parameters
    ----------
    engine
        A `partwise.engines.dask.DaskEngine`.
    blocks
        What to read; functions that can be sent to workers.
    folder
        The folder to make. All workers must see it.
    rules
        What to check.
    """
    import dask
    from dask.delayed import delayed

    store = delayed(_store)
    futures: list[Any] = []
    try:
        with new_folder(Path(folder).absolute()) as aside:
            parts_folder = aside / "parts"
            parts_folder.mkdir()

            def submit(number: int, first_row: int) -> Any:
                block = blocks[number]
                return store(block.function, block.arguments, str(parts_folder / str(number)), first_row, rules)

            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
                firsts = [block.first_row or 0 for block in blocks]
                futures += engine.client.compute(list(map(submit, range(len(blocks)), firsts)))
            parts = _stored(engine, blocks, futures, lambda *at: engine.client.compute(submit(*at)))
            whole = Description.of_all([part.description for part in parts])
            for sentence in dict.fromkeys(itertools.chain.from_iterable(part.warned for part in parts)):
                warnings.warn(sentence, LogNormalisedWarning, stacklevel=3)
            futures[:] = engine.submit_each(_write_range, list(_ranges(aside, whole, parts)))
            futures += engine.submit_each(_add_column_sums, [(str(aside), [part.folder for part in parts])])
            engine.results(futures)
            if whole.column_labels:
                shutil.copyfile(Path(parts[0].folder) / "column_labels.npy", aside / "column_labels.npy")
            shutil.rmtree(parts_folder)
            whole.write(aside)
    except BaseException as error:
        abandon(engine.client, futures)
        if isinstance(error, OSError):
            raise EngineError(
                f"a worker could not write its part of the data ({error}): give a folder that all workers see, with"
                " room for the data twice."
            ) from error
        raise


def _stored(
    engine: Any, blocks: Sequence[UnreadRows], futures: Sequence[Any], again: Callable[[int, int], Any]
) -> list[_Part]:
    """The description of all parts, in order. The first part that cannot be used is refused, with its position."""
    parts: list[_Part] = []
    n_rows = 0
    for number, (block, future) in enumerate(zip(blocks, futures, strict=True)):
        try:
            part = engine.result(future)
        except InvalidInputError:
            if block.first_row is None and n_rows:
                engine.result(again(number, n_rows))
            raise
        if part is not None:
            parts.append(part)
            parts[0].description.check_features(part.description, number)
            n_rows += part.description.shape[0]
    return parts


# What workers run


def _store(function: Function, arguments: Sequence[Any], folder: str, first_row: int, rules: DataRules) -> Any:
    """Read some rows, check them and write them to a folder, completely or not at all; None if there are no rows."""
    with heard_warnings() as heard:
        rows = checked(function(*arguments), first_row, rules)
    if rows is None:
        return None
    aside = Path(f"{folder}.{uuid.uuid4().hex}")
    aside.mkdir()
    description = save_rows(rows, aside)
    try:
        aside.rename(folder)
    except OSError:
        # A task that is run twice finds its earlier result.
        shutil.rmtree(aside, ignore_errors=True)
        if not Path(folder).is_dir():
            raise
    return _Part(folder, description, tuple(heard))


def _ranges(aside: Path, whole: Description, parts: Sequence[_Part]) -> Iterator[tuple[str, int, int, list[_Source]]]:
    """Create the empty files of the whole, and return the ranges in which they can be written in any order."""
    for name, (size, dtype) in whole.arrays().items():
        path = aside / f"{name}.npy"
        with path.open("wb") as file:
            write_header(file, dtype, size)
            header = file.tell()
            file.truncate(header + size * dtype.itemsize)
        aligned = header % dtype.itemsize == 0 and _RANGE_BYTES % dtype.itemsize == 0
        step = _RANGE_BYTES // dtype.itemsize
        edges = range(step - header // dtype.itemsize, size, step) if aligned else range(0)
        sources = list(_sources(name, parts))
        for start, stop in itertools.pairwise([0, *edges, size]):
            own = [one for one in sources if one.size and one.first < stop and one.first + one.size > start]
            if own:
                yield str(path), start, stop, own


def _sources(name: str, parts: Sequence[_Part]) -> Iterator[_Source]:
    """Where the numbers of one array come from. The pointers of a part end where those of the next part begin."""
    first, added = 0, 0
    for part in parts:
        arrays = part.description.arrays()
        size = arrays[name][0]
        yield _Source(str(Path(part.folder) / f"{name}.npy"), first, size, added)
        first += size
        if name in POINTERS:
            first, added = first - 1, added + arrays[POINTERS[name]][0]


def _write_range(path: str, start: int, stop: int, sources: Sequence[_Source]) -> None:
    """Copy consecutive numbers of an array from the parts to their positions in the whole."""
    whole = load_npy(path, "r")
    with Path(path).open("r+b") as file:
        for source in sources:
            numbers = load_npy(source.path, "r")
            first, last = max(start, source.first), min(stop, source.first + source.size)
            file.seek(whole.offset + first * whole.itemsize)  # type: ignore[attr-defined]  # of a mapped array
            for at in range(first, last, _COPIED_AT_ONCE):
                some = numbers[at - source.first : min(at + _COPIED_AT_ONCE, last) - source.first]
                file.write(np.asarray(some + source.added if source.added else some, dtype=whole.dtype).tobytes())
        file.flush()
        os.fsync(file.fileno())


def _add_column_sums(folder: str, parts: Sequence[str]) -> None:
    """Write the sums of columns over all parts, added in order."""
    sums = [load_npy(Path(part) / "column_sums.npy") for part in parts]
    save_arrays(Path(folder), column_sums=sum(sums[1:], sums[0]))
