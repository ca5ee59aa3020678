"""Whatever happens to a file on its way, reading it gives a Table or one sentence."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import io_samples
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from partwise.errors import FileFormatError
from partwise.io import Table, read

Damage = tuple[float, list[tuple[float, int]]]

# Where the file is cut (1 = not at all) and which bytes change into what, as shares of its length.
damages = st.tuples(
    st.one_of(st.just(1.0), st.floats(0, 1)),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4),
)

WRITERS: dict[str, tuple[Callable[[Path], Path], dict[str, Any]]] = {
    "csr.npz": (io_samples.write_npz, {}),
    "uncompressed.npz": (lambda folder: io_samples.write_npz(folder, "coo", compressed=False), {}),
    "bsr.npz": (lambda folder: io_samples.write_npz(folder, "bsr", compressed=False), {}),
    "dia.npz": (lambda folder: io_samples.write_npz(folder, "dia", compressed=False), {}),
    "npy": (io_samples.write_npy, {}),
    "mtx": (io_samples.write_mtx, {}),
    "dense mtx": (io_samples.write_dense_mtx, {}),
    "mtx.gz": (lambda folder: io_samples.compress(io_samples.write_mtx(folder)), {}),
    "csv": (io_samples.write_csv, {}),
    "tsv.gz": (io_samples.write_tsv_gz, {}),
    "long": (io_samples.write_long, {"format": "long"}),
    "parquet": (io_samples.write_parquet, {}),
    "docword": (io_samples.write_docword, {}),
    "docword.gz": (lambda folder: io_samples.compress(io_samples.write_docword(folder)), {}),
    "ldac": (io_samples.write_ldac, {}),
}


def damaged(content: bytes, damage: Damage) -> bytes:
    cut, changes = damage
    rest = bytearray(content[: round(cut * len(content))])
    for position, value in changes:
        if rest:
            rest[int(position * len(rest))] = value
    return bytes(rest)


def check(path: Path, **options: Any) -> bool:
    """Read; give whether a Table came out."""
    try:
        table = read(path, memory_limit="100 MB", **options)
    except FileFormatError as error:
        message = str(error)
        assert message.endswith("."), message
        assert "\n" not in message, message
        assert path.name in message, message
        return False
    assert isinstance(table, Table)
    return True


@pytest.mark.parametrize("name", WRITERS)
def test_damaged_files(tmp_path: Path, name: str) -> None:
    write, options = WRITERS[name]
    path = write(tmp_path)
    content = path.read_bytes()
    outcomes = {check(path, **options)}
    assert outcomes == {True}

    @settings(max_examples=80, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(damages)
    def damage_it(damage: Damage) -> None:
        path.write_bytes(damaged(content, damage))
        outcomes.add(check(path, **options))

    damage_it()
    assert outcomes == {True, False}


def test_damaged_h5ad(tmp_path: Path) -> None:
    path = io_samples.write_h5ad(tmp_path)
    content = path.read_bytes()

    @settings(max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(damages)
    def damage_it(damage: Damage) -> None:
        path.write_bytes(damaged(content, damage))
        check(path)

    damage_it()


# Each reading of a .zarr directory starts a process.
@pytest.mark.parametrize(("write", "most"), [(io_samples.write_zarr, 15), (io_samples.write_10x, 60)])
def test_damaged_directories(tmp_path: Path, write: Callable[[Path], Path], most: int) -> None:
    folder = write(tmp_path)
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    spare = tmp_path / "spare"

    @settings(max_examples=most, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(files), damages)
    def damage_it(file: Path, damage: Damage) -> None:
        shutil.copy(file, spare)
        file.write_bytes(damaged(file.read_bytes(), damage))
        check(folder)
        shutil.copy(spare, file)

    damage_it()
    assert check(folder)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells and limits the memory of a process so")
def test_names_that_would_fill_all_memory_are_refused(tmp_path: Path) -> None:
    # How many names a chunk has stands behind the 16 bytes of its compressor: here 2.8e9, 20 GB of pointers.
    folder = io_samples.write_zarr(tmp_path)
    chunk = folder / "obs" / "_index" / "0"
    content = chunk.read_bytes()
    chunk.write_bytes(content[:16] + b"\xa5" * 4 + content[20:])
    with pytest.raises(FileFormatError, match="Unable to allocate 20"):
        read(folder, memory_limit="100 MB")
