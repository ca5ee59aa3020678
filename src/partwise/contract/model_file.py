"""Model files: one safetensors file with arrays, labels and JSON metadata. Never pickle, never code."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from partwise._registry import find_estimator, is_registered
from partwise._version import __version__
from partwise.core.coerce import as_table
from partwise.core.result import Status, StatusCode, Trace
from partwise.core.state import fingerprint
from partwise.errors import FileFormatError, InvalidInputError
from partwise.io.arrays import load_arrays, save_arrays
from partwise.io.table import Table

if TYPE_CHECKING:
    from partwise.contract.estimator import FactorizationEstimator

_KIND = "partwise model"
_DATA = (".npz", ".npy", ".csv", ".tsv", ".txt", ".mtx", ".h5ad", ".parquet", ".gz")
_VERSION = 1
_TRACE = "trace/"
# No fit gives larger numbers, and their sums and products would overflow.
LARGEST = 1e100
# These say where and how a fit ran, so they are not part of the model.
NOT_STORED = frozenset({"engine", "progress", "callbacks", "checkpoint", "resume", "n_jobs"})


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator of a registered class to one file.

    Parameters
    ----------
    estimator
        Fitted; its fitted fields are arrays, numbers, text, a `Trace` or a `Status`.
    path
        The file to write. The write replaces it as a whole.
    """
    name = type(estimator).__name__
    if not is_registered(type(estimator)):
        raise InvalidInputError(
            f"{name} is not a registered model, so load would not find it: save the estimator that it is built on, or"
            " register the class as an entry point of the group 'partwise.models'."
        )
    allowed = fitted_attributes(type(estimator))
    arrays: dict[str, Any] = {}
    metadata: dict[str, Any] = {
        "kind": _KIND,
        "format_version": _VERSION,
        "partwise": __version__,
        "class": name,
        "parameters": {},
        "attributes": {},
    }
    parameters = {key: value for key, value in estimator.get_params(deep=False).items() if key not in NOT_STORED}
    for key, value in parameters.items():
        metadata["parameters"][key] = _pack(f"parameter/{key}", value, arrays)
    for key, value in vars(estimator).items():
        if key.endswith("_") and not key.startswith("_"):
            if key not in allowed:
                raise InvalidInputError(
                    f"{name} has set {key}, which it does not declare: declare it as `{key}: ... = field(init=False)`"
                    " in the class, so that load can read it."
                )
            metadata["attributes"][key] = _pack(f"attribute/{key}", value, arrays)
    save_arrays(path, arrays, {**metadata, "checksum": _checksum(metadata, arrays)})


def _checksum(metadata: dict[str, Any], arrays: dict[str, Any]) -> str:
    return fingerprint([json.dumps(metadata, sort_keys=True), {name: arrays[name] for name in sorted(arrays)}])


def _pack(name: str, value: Any, arrays: dict[str, Any]) -> Any:
    """Convert a value to JSON with a note of its kind; arrays go to ``arrays`` under ``name``."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim):
        value = value.item()
    if isinstance(value, np.ndarray):
        labels = value.dtype.kind in "OU" and value.ndim == 1
        arrays[name] = np.asarray([str(item) for item in value], dtype=np.str_) if labels else value
        return {"kind": "labels" if labels else "array"}
    if isinstance(value, Trace):
        columns = value.to_arrays()
        arrays.update({f"{name}/{_TRACE}{column}": array for column, array in columns.items()})
        return {"kind": "trace", "columns": list(columns)}
    if isinstance(value, Status):
        return {"kind": "status", "value": asdict(value)}
    if isinstance(value, tuple | list):
        return {"kind": "tuple", "items": [_pack(f"{name}/{at}", item, arrays) for at, item in enumerate(value)]}
    if isinstance(value, Mapping):
        items = {str(key): _pack(f"{name}/{key}", item, arrays) for key, item in value.items()}
        return {"kind": "mapping", "items": items}
    if isinstance(value, os.PathLike):
        return {"kind": "value", "value": os.fspath(value)}
    if isinstance(value, Table) or hasattr(value, "columns"):
        table = as_table(value)
        return {**_pack(name, (table.matrix.toarray(), table.row_labels, table.column_labels), arrays), "kind": "table"}
    if hasattr(value, "__array__"):
        return _pack(name, np.asarray(value), arrays)
    if hasattr(value, "to_plain"):
        return _pack(name, value.to_plain(), arrays)
    if isinstance(value, np.random.Generator | np.random.RandomState):
        return {"kind": "value", "value": None}
    if value is None or isinstance(value, bool | int | float | str):
        return {"kind": "value", "value": value}
    raise InvalidInputError(f"{name.replace('/', ' ')} is a {type(value).__name__}, which a model file cannot hold.")


def load(path: str | os.PathLike[str]) -> FactorizationEstimator:
    """Read a model file that ``estimator.save`` wrote.

    Parameters
    ----------
    path
        The file. It holds data only: nothing in it can run.

    Returns
    -------
    estimator
        Fitted, as it was saved.

    Raises
    ------
    FileFormatError
        The file is truncated, damaged, foreign, or written by a newer format.

    Examples
    --------
    >>> import numpy as np, tempfile, partwise
    >>> model = partwise.PoissonNMF(2, random_state=0).fit(np.eye(4) + 1)
    >>> path = tempfile.mkdtemp() + "/parts.partwise"
    >>> bool((partwise.load(model.save(path) and path).components_ == model.components_).all())
    True
    """
    where = os.fspath(path)
    try:
        arrays, metadata = load_arrays(path)
    except FileFormatError as error:
        if not where.endswith(_DATA):
            raise
        raise FileFormatError(f"{where} holds data, not a model: give a model file (usually NAME.partwise).") from error
    if metadata.get("kind") != _KIND:
        raise FileFormatError(f"{where} is not a model file of partwise: give one that save or `partwise fit` wrote.")
    version = metadata.get("format_version")
    if not isinstance(version, int) or version > _VERSION or version < 1:
        raise FileFormatError(
            f"{where} has model format {version!r}, and this partwise reads 1 to {_VERSION}: upgrade partwise."
        )
    try:
        if metadata.pop("checksum", None) != _checksum(metadata, arrays):
            raise ValueError("its checksum is not that of its content")
        cls = _class_of(metadata["class"], where)
        notes = dict(metadata["parameters"])
        parameters = {key: _unpack(f"parameter/{key}", note, arrays) for key, note in notes.items()}
        estimator: FactorizationEstimator = cls(**parameters)
        estimator.check_parameters()
        allowed = fitted_attributes(cls)
        for key, note in dict(metadata["attributes"]).items():
            if key not in allowed:
                raise ValueError(f"{key!r} is not a fitted attribute of {cls.__name__}")
            value = _unpack(f"attribute/{key}", note, arrays)
            numbers = np.asarray(value)
            if numbers.dtype.kind == "f" and np.any(np.abs(numbers.astype(np.float64)) > LARGEST):
                raise ValueError(f"its {key} holds numbers beyond {LARGEST:g}")
            setattr(estimator, key, value)
        estimator._check_loaded()
    except FileFormatError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FileFormatError(f"{where} is a damaged model file ({error}): fit again, or use a copy.") from error
    return estimator


def _class_of(name: Any, where: str) -> type[Any]:
    try:
        return find_estimator(str(name))
    except InvalidInputError as error:
        raise FileFormatError(f"{where} holds a model that cannot be loaded: {error}") from error


def fitted_attributes(cls: type) -> set[str]:
    """Names of the fitted attributes of an estimator class: its fields that are not parameters."""
    return {one.name for one in fields(cls) if not one.init}


def check_common(model: Any) -> None:
    """Raise ``ValueError`` (or ``AttributeError``) if a loaded model lacks something that every fit stores."""
    shape = (model.n_components_, model.n_features_in_)
    counters = (model.n_iter_, model.n_active_components_, model.n_samples_seen_, getattr(model, "n_batches_", 0))
    if not all(type(number) is int and number >= 0 for number in (*shape, *counters)):
        raise ValueError(f"its counts of parts, features, iterations and samples are {(*shape, *counters)}")
    check_array_is(model.components_, "components_", shape, signed=model.declares.signed)
    check_array_is(model.part_weights_, "part_weights_", shape[:1])
    active = model.active_components_
    if active.dtype.kind != "i" or active.shape != (model.n_active_components_,):
        raise ValueError("its active parts are not a list of their positions")
    if not np.all((active >= 0) & (active < model.n_components_)):
        raise ValueError("its active parts are beyond their number")
    for names, size in (("feature_names_in_", shape[1]), ("component_names_", shape[0])):
        if hasattr(model, names) and getattr(model, names).shape != (size,):
            raise ValueError(f"its {names} are {getattr(model, names).size} names for {size}")
    if hasattr(model, "presence_prior_"):
        check_array_is(model.presence_prior_, "presence_prior_", shape[:1])
        if np.any(model.presence_prior_ > 1):
            raise ValueError("its presence_prior_ holds numbers above 1")
    if not isinstance(model.trace_, Trace) or not isinstance(model.status_, Status):
        raise ValueError("its trace or its status is not of the expected kind")


def check_array_is(array: Any, name: str, shape: tuple[int, ...], *, signed: bool = False) -> None:
    """Raise ``ValueError`` unless it is a float64 array of this shape, finite and (if not ``signed``) nonnegative."""
    if not isinstance(array, np.ndarray) or array.dtype != np.float64 or array.shape != shape:
        raise ValueError(f"its {name} is not an array of float64 of shape {shape}")
    if not np.all(np.abs(array) <= LARGEST) or (np.any(array < 0) and not signed):
        raise ValueError(f"its {name} holds numbers that are negative, not finite or beyond {LARGEST:g}")


def _unpack(name: str, note: Any, arrays: dict[str, Any]) -> Any:
    kind = note["kind"]
    if kind == "array":
        return _array(name, arrays, "biuf")
    if kind == "labels":
        return _array(name, arrays, "U").astype(object)
    if kind == "trace":
        columns = {column: _array(f"{name}/{_TRACE}{column}", arrays, "if") for column in note["columns"]}
        return Trace.from_arrays(columns)
    if kind == "status":
        status = Status(**note["value"])
        if status.code not in get_args(StatusCode) or not isinstance(status.message, str):
            raise ValueError(f"unknown status {status.code!r}")
        return status
    if kind in ("tuple", "table"):
        items = tuple(_unpack(f"{name}/{at}", item, arrays) for at, item in enumerate(note["items"]))
        return Table(*items) if kind == "table" else items
    if kind == "mapping":
        return {str(key): _unpack(f"{name}/{key}", item, arrays) for key, item in note["items"].items()}
    if kind == "value" and (note["value"] is None or isinstance(note["value"], bool | int | float | str)):
        return note["value"]
    raise ValueError(f"unknown kind {kind!r} of {name}")


def _array(name: str, arrays: dict[str, Any], kinds: str) -> Any:
    if arrays[name].dtype.kind not in kinds:
        raise ValueError(f"{name} is an array of {arrays[name].dtype}")
    return arrays[name]
