from __future__ import annotations

import pytest

from partwise.errors import FileFormatError, InvalidInputError
from partwise.io.source import available_memory, bytes_allowed, format_bytes, refuse_above


def test_amounts() -> None:
    assert bytes_allowed(1000) == 1000
    assert bytes_allowed("2 GB") == bytes_allowed("2GiB") == bytes_allowed("2g") == 2 * 2**30
    for bad in ("two", "-1 GB", "", 0, -5, float("inf"), float("nan")):
        with pytest.raises(InvalidInputError, match="is not an amount of memory"):
            bytes_allowed(bad)


def test_environment_and_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTWISE_MEMORY_LIMIT", "3 MB")
    assert bytes_allowed() == 3 * 2**20
    assert bytes_allowed("1 MB") == 2**20
    monkeypatch.setenv("PARTWISE_MEMORY_LIMIT", "lots")
    with pytest.raises(InvalidInputError, match="PARTWISE_MEMORY_LIMIT='lots'"):
        bytes_allowed()
    monkeypatch.delenv("PARTWISE_MEMORY_LIMIT")
    assert 0.2 * available_memory() < bytes_allowed() < 0.8 * available_memory()


def test_refusal_names_both_sizes() -> None:
    refuse_above(10, 10, "x")
    with pytest.raises(FileFormatError, match=r"^x declares 2\.5 kB, more than the 10 bytes that may be used; if"):
        refuse_above(10, 2560, "x")
    assert format_bytes(10**18) == "9.095e+05 TB"
