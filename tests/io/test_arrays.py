from __future__ import annotations

import contextlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from partwise.errors import FileFormatError, InvalidInputError
from partwise.io.arrays import load_arrays, save_arrays

ARRAYS: dict[str, Any] = {
    "dictionary": np.linspace(0, 1, 12).reshape(4, 3),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(10)[::2],
    "big_endian": np.arange(3, dtype=">i4"),
    "scalar": np.float32(2.5),
    "none": np.zeros((0, 3), dtype=np.uint16),
    "flags": np.array([True, False]),
    "labels": np.array(["", "naïve", "日本", "a\nb"]),
    "no_labels": np.array([], dtype=np.str_),
}
METADATA: dict[str, Any] = {"seed": np.int64(3), "tol": 1e-4, "nested": {"a": [1, None, "é"]}, "limit": float("inf")}


def saved(path: Path, **changes: Any) -> bytes:
    save_arrays(path, {**ARRAYS, **changes}, METADATA)
    return path.read_bytes()


def test_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    saved(tmp_path / "m")
    arrays, metadata = load_arrays(tmp_path / "m")
    assert sorted(arrays) == sorted(ARRAYS)
    for name, value in ARRAYS.items():
        expected = np.asarray(value)
        assert arrays[name].shape == expected.shape, name
        assert arrays[name].dtype.newbyteorder("=") == expected.dtype.newbyteorder("=") or expected.dtype.kind == "U"
        np.testing.assert_array_equal(arrays[name], expected)
        if arrays[name].size:
            arrays[name][...] = arrays[name].flat[0]  # loaded arrays can be written to
    assert metadata == {"seed": 3, "tol": 1e-4, "nested": {"a": [1, None, "é"]}, "limit": float("inf")}


def test_large_metadata_leave_the_header(tmp_path: Path) -> None:
    save_arrays(tmp_path / "m", {"a": np.ones(2)}, {"trace": list(range(50_000))})
    with (tmp_path / "m").open("rb") as file:
        assert struct.unpack("<Q", file.read(8))[0] < 1000
    assert load_arrays(tmp_path / "m")[1]["trace"][-1] == 49_999


def test_equal_content_gives_equal_bytes_and_plain_safetensors(tmp_path: Path) -> None:
    assert saved(tmp_path / "a") == saved(tmp_path / "b")
    with safe_open(tmp_path / "a", framework="np") as file:
        np.testing.assert_array_equal(file.get_tensor("dictionary"), ARRAYS["dictionary"])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("a::b", np.ones(2), "without '::'"),
        ("objects", np.array([object()]), "dtype object"),
        ("texts", np.array([["a"]]), "one axis"),
        ("dates", np.array(["2020-01-01"], dtype="datetime64[D]"), "dtype datetime64"),
        ("wide", np.ones(2, dtype=np.complex128), "dtype complex128"),
    ],
)
def test_what_cannot_be_stored(tmp_path: Path, name: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        save_arrays(tmp_path / "m", {name: value})
    with pytest.raises(InvalidInputError, match="metadata"):
        save_arrays(tmp_path / "m", {}, {"a": object()})
    assert not (tmp_path / "m").exists()


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load_arrays(tmp_path / "absent")
    with pytest.raises(IsADirectoryError, match="is a directory; give the name of a file"):
        load_arrays(tmp_path)


def raw(path: Path, header: dict[str, Any], body: bytes = b"") -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


def test_foreign_newer_and_unversioned_files(tmp_path: Path) -> None:
    save_file({"a": np.ones(2)}, tmp_path / "foreign")
    with pytest.raises(FileFormatError, match="not of partwise"):
        load_arrays(tmp_path / "foreign")
    save_file({"a": np.ones(2)}, tmp_path / "newer", metadata={"partwise": '{"format_version": 99}'})
    with pytest.raises(FileFormatError, match="upgrade partwise"):
        load_arrays(tmp_path / "newer")
    for text in ("[]", "{}", '{"format_version": "1"}', "nonsense", "[" * 100_000):
        save_file({"a": np.ones(2)}, tmp_path / "odd", metadata={"partwise": text})
        with pytest.raises(FileFormatError):
            load_arrays(tmp_path / "odd")
    (tmp_path / "pickle").write_bytes(b"\x80\x04cos\nsystem\n(S'exit 1'\ntR.")
    with pytest.raises(FileFormatError):
        load_arrays(tmp_path / "pickle")


VERSION = {"__metadata__": {"partwise": '{"format_version": 1}'}}


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 16]},
        {"dtype": "F64", "shape": [2**63, 2**63], "data_offsets": [0, 16]},
        {"dtype": "F64", "shape": [-2], "data_offsets": [0, 16]},
        {"dtype": "F64", "shape": [2], "data_offsets": [16, 0]},
        {"dtype": "F64", "shape": [2], "data_offsets": [0, 2**62]},
        {"dtype": "F64", "shape": [0, 2**62], "data_offsets": [0, 0]},
        {"dtype": "F64", "shape": [1] * 80 + [2], "data_offsets": [0, 16]},
        {"dtype": "BF16", "shape": [8], "data_offsets": [0, 16]},
        {"dtype": "F8_E4M3", "shape": [16], "data_offsets": [0, 16]},
        {"dtype": "O", "shape": [2], "data_offsets": [0, 16]},
        {"dtype": "F64"},
    ],
)
def test_hostile_headers(tmp_path: Path, entry: dict[str, Any]) -> None:
    with pytest.raises(FileFormatError):
        load_arrays(raw(tmp_path / "m", {**VERSION, "a": entry}, bytes(16)))


def test_huge_header_and_huge_labels(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    with pytest.raises(FileFormatError):
        load_arrays(tmp_path / "m")
    save_arrays(tmp_path / "m", {"labels": np.array(["x" * 10_000, *("y" * 2000)])})
    with pytest.raises(FileFormatError, match="label array 'labels' declares"):
        load_arrays(tmp_path / "m", memory_limit="10 MB")


@pytest.mark.parametrize(
    "tensors",
    [
        {"labels::utf8": np.zeros(3, np.uint8)},
        {"labels::offsets": np.zeros(3, np.int64)},
        {"labels::utf8": np.zeros(3, np.uint8), "labels::offsets": np.array([0, 5, 3])},
        {"labels::utf8": np.zeros(3, np.uint8), "labels::offsets": np.array([0, 2])},
        {"labels::utf8": np.full(3, 255, np.uint8), "labels::offsets": np.array([0, 3])},
        {"labels::utf8": np.zeros(3), "labels::offsets": np.array([0, 3])},
        {"::metadata": np.frombuffer(b"[1]", np.uint8)},
        {"::metadata": np.zeros(2)},
        {"a::b": np.zeros(2)},
    ],
)
def test_inconsistent_contents(tmp_path: Path, tensors: dict[str, Any]) -> None:
    save_file(tensors, tmp_path / "m", metadata=VERSION["__metadata__"])
    with pytest.raises(FileFormatError, match=r"; fetch a fresh copy or write it again\.$"):
        load_arrays(tmp_path / "m")


def test_damage_gives_arrays_or_our_error(tmp_path: Path) -> None:
    path = tmp_path / "damaged.safetensors"
    whole = saved(path)
    places = st.integers(0, len(whole) - 1)

    @settings(max_examples=300, deadline=None, database=None)
    @given(st.one_of(st.just(len(whole)), places), st.lists(st.tuples(places, st.integers(1, 255)), max_size=4))
    def damage_it(length: int, flips: list[tuple[int, int]]) -> None:
        content = bytearray(whole)
        for position, change in flips:
            content[position] ^= change
        path.write_bytes(content[:length])
        with contextlib.suppress(FileFormatError):
            load_arrays(path)

    damage_it()
