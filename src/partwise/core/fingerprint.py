"""Checksums of data and of parameters, by which a checkpoint knows the fit that it belongs to."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import scipy.sparse


def fingerprint(value: Any) -> str:
    """A checksum of everything that can change a result: types, numbers, text, arrays, sparse matrices, parameters.

    Of a dataclass, the fields that take part in comparison count (``field(compare=False)`` leaves out caches and
    buffers); of any other object, its attributes that do not begin with an underscore. An object with a method
    ``fingerprint() -> str`` speaks for itself, which is how an engine says that it changes nothing.

    Parameters
    ----------
    value
        Data, an algorithm, or any nesting of them.

    Returns
    -------
    str
        32 hexadecimal digits.

    Examples
    --------
    >>> fingerprint(np.arange(3)) == fingerprint([0, 1, 2])
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    _feed(digest, value)
    return digest.hexdigest()


def _feed(digest: hashlib.blake2b, value: Any) -> None:
    if hasattr(value, "fingerprint") and not isinstance(value, type):
        _feed(digest, value.fingerprint())
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        digest.update(f"array {value.dtype.str} {value.shape};".encode())
        digest.update(np.ascontiguousarray(value).data)
    elif value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        digest.update(f"{type(value).__name__} {value!r};".encode("utf-8", "surrogatepass"))
    elif isinstance(value, np.ndarray):
        _feed_sequence(digest, f"objects {value.shape}", value.ravel().tolist())
    elif scipy.sparse.issparse(value):
        canonical: Any = cast(Any, value).tocsr()
        _feed_sequence(digest, f"sparse {canonical.shape}", [canonical.indptr, canonical.indices, canonical.data])
    elif isinstance(value, list | tuple):
        _feed_sequence(digest, type(value).__name__, value)
    elif isinstance(value, Mapping):
        _feed_sequence(digest, "mapping", [part for item in value.items() for part in item])
    elif isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        digest.update(f"{value.__module__}.{value.__qualname__};".encode())
    elif dataclasses.is_dataclass(value):
        _feed_attributes(digest, value, [f.name for f in dataclasses.fields(value) if f.compare])
    elif hasattr(value, "__dict__"):
        _feed_attributes(digest, value, [name for name in vars(value) if not name.startswith("_")])
    else:
        raise TypeError(f"a {type(value).__name__} has no fingerprint: give it a method fingerprint()")


def _feed_attributes(digest: hashlib.blake2b, value: Any, names: list[str]) -> None:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    _feed_sequence(digest, kind, [part for name in sorted(names) for part in (name, getattr(value, name))])


def _feed_sequence(digest: hashlib.blake2b, kind: str, parts: Any) -> None:
    digest.update(f"{kind}(".encode("utf-8", "surrogatepass"))
    for part in parts:
        _feed(digest, part)
    digest.update(b")")
