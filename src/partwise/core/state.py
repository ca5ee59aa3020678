"""Convert nested states and parameters to named arrays and back exactly, and compute checksums of them."""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any, TypeVar, cast, get_args, get_type_hints

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

State = TypeVar("State")
Layout = dict[str, Any]


def state_to_arrays(state: Any) -> tuple[dict[str, NDArray[Any]], Layout]:
    """Take a state apart into named arrays and a layout that JSON can hold.

    Parameters
    ----------
    state
        A dataclass whose fields are contiguous NumPy arrays (no two sharing memory), arrays of an engine, which are
        fetched, NumPy or Python numbers, str, None, lists of these, or such dataclasses again.

    Returns
    -------
    arrays, layout
        Arrays (not copied) by dotted field name. Floats are stored as 0-d arrays, so their bits are kept. The layout
        holds the rest: field types, ints, text, None, and whether an array is in Fortran order.

    Examples
    --------
    >>> @dataclasses.dataclass
    ... class Pair:
    ...     rate: float
    ...     counts: np.ndarray
    >>> arrays, layout = state_to_arrays(Pair(0.1, np.arange(3)))
    >>> state_from_arrays(Pair, arrays, layout)
    Pair(rate=0.1, counts=array([0, 1, 2]))
    """
    if not dataclasses.is_dataclass(state) or isinstance(state, type):
        raise TypeError(f"a state must be an instance of a dataclass, not {type(state).__name__}")
    arrays: dict[str, NDArray[Any]] = {}
    return arrays, _take_apart(state, "", arrays)


def state_from_arrays(cls: type[State], arrays: Mapping[str, NDArray[Any]], layout: Layout) -> State:
    """Rebuild a state. Fields are set directly, and ``__post_init__`` is not called.

    Parameters
    ----------
    cls
        The dataclass.
    arrays, layout
        The result of `state_to_arrays`. The new state gets copies of the arrays, so they are aligned and writeable.

    Raises
    ------
    ValueError
        The arrays and the layout do not belong to a state of this class.
    """
    try:
        state: State = _put_together(cls, "", arrays, layout)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the content does not fit a state of class {cls.__name__} ({error})") from error
    return state


def _take_apart(value: Any, name: str, arrays: dict[str, NDArray[Any]]) -> Layout:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        prefix = f"{name}." if name else ""
        fields = dataclasses.fields(value)
        return {"fields": {f.name: _take_apart(getattr(value, f.name), prefix + f.name, arrays) for f in fields}}
    if isinstance(value, list):
        return {"items": [_take_apart(item, f"{name}.{at}", arrays) for at, item in enumerate(value)]}
    if hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic):
        # An array of an engine, whose rows are on other machines.
        value = np.asarray(value)
    if isinstance(value, np.ndarray):
        if not (value.flags.c_contiguous or value.flags.f_contiguous) or not value.dtype.isnative:
            # Sums over a copy with other strides can differ in the last bit.
            raise TypeError(f"state field {name!r} must be a contiguous array of native byte order: store a copy")
        arrays[name] = value
        return {"array": "C" if value.flags.c_contiguous else "F"}
    if isinstance(value, np.generic):
        arrays[name] = np.array(value)
        return {"scalar": "numpy"}
    if type(value) is float:
        arrays[name] = np.array(value)
        return {"scalar": "python"}
    if value is None or type(value) in (bool, int, str):
        return {"value": value}
    raise TypeError(
        f"state field {name!r} is a {type(value).__name__}: use arrays, numbers, str, None, lists or dataclasses"
    )


def _put_together(cls: Any, name: str, arrays: Mapping[str, NDArray[Any]], layout: Layout) -> Any:
    ((kind, detail),) = layout.items()
    if kind == "value":
        return detail
    if kind == "scalar":
        return arrays[name].item() if detail == "python" else arrays[name][()]
    if kind == "array":
        return np.array(arrays[name], order=detail)
    if kind == "items":
        return [_put_together(None, f"{name}.{at}", arrays, inner) for at, inner in enumerate(detail)]
    names = [f.name for f in dataclasses.fields(cls)]
    if kind != "fields" or sorted(names) != sorted(detail):
        raise TypeError(f"its fields are {', '.join(names)}")
    prefix = f"{name}." if name else ""
    state = cls.__new__(cls)
    for field, inner in detail.items():
        inner_cls = _nested_class(cls, field) if "fields" in inner else None
        object.__setattr__(state, field, _put_together(inner_cls, prefix + field, arrays, inner))
    return state


def _nested_class(cls: type, field: str) -> type:
    hint = get_type_hints(cls)[field]
    classes = [option for option in (hint, *get_args(hint)) if dataclasses.is_dataclass(option)]
    if len(classes) != 1:
        raise TypeError(f"field {field!r} is not annotated with one dataclass")
    return classes[0]  # type: ignore[return-value]  # `is_dataclass` allows instances too


def fingerprint(value: Any) -> str:
    """A checksum of everything that can change a result: types, numbers, text, arrays, sparse matrices, parameters.

    For a dataclass, the fields that take part in comparison count (``field(compare=False)`` leaves out caches and
    buffers). For any other object, its attributes without a leading underscore count. An object with a method
    ``fingerprint() -> str`` decides for itself: this is how an engine says that it does not change results.

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
