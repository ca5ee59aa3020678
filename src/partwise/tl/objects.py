"""AnnData and MuData objects: which matrix to use, and how a model is stored in one."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from partwise.contract.features import parts_of_features
from partwise.contract.model_file import load
from partwise.core.coerce import as_table
from partwise.errors import InvalidInputError
from partwise.io.table import Table

FILE = "model_file"
"""Key in ``uns[key]`` of the model file, as bytes."""


def modality(data: Any, mod: str | None) -> Any:
    """The AnnData object to use: the object itself, or a modality of MuData."""
    if hasattr(data, "mod"):
        if mod not in data.mod:
            known = ", ".join(map(repr, data.mod))
            wrong = "a MuData object needs mod" if mod is None else f"mod={mod!r} is not a modality of it"
            raise InvalidInputError(f"{wrong}: give one of {known}.")
        return data.mod[mod]
    if not hasattr(data, "obsm") or not hasattr(data, "varm"):
        raise InvalidInputError(f"an AnnData object is needed, got {type(data).__name__}.")
    if mod is not None:
        raise InvalidInputError(f"mod={mod!r} is for MuData objects, and this is AnnData: leave mod out.")
    return data


def opened(whole: Any, mod: str | None, copy: bool) -> tuple[Any, Any]:
    """The object to write to, which may be a copy in memory, and the AnnData object in it."""
    if copy:
        whole = whole.to_memory() if getattr(whole, "isbacked", False) else whole.copy()
    return whole, modality(whole, mod)


def counts_of(adata: Any, layer: str | None) -> Table:
    """The counts to use, with names; repeated names are refused."""
    names, times = np.unique(np.asarray(adata.var_names, dtype=np.str_), return_counts=True)
    if np.any(times > 1):
        name = str(names[np.argmax(times)])
        raise InvalidInputError(
            f"{int(times.max())} variables are called {name!r}: call var_names_make_unique() on the object first."
        )
    return as_table(adata, layer=layer)


def keep(adata: Any, model: Any, activations: Any, key: str, params: dict[str, Any]) -> None:
    """Store a fitted model: activations in obsm, parts in varm, the model and its parameters in uns."""
    adata.obsm[f"X_{key}"] = activations
    adata.varm[key] = parts_of_features(model, model.components_, adata.var_names)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    adata.uns[key] = {
        "params": {name: value for name, value in params.items() if value is not None},
        "model": type(model).__name__,
        "parts": np.array(model.part_labels()),
        "status": model.status_.message,
        FILE: content,
    }


def kept(adata: Any, key: str) -> tuple[Any, dict[str, Any]]:
    """The model stored under a key, and the parameters of its fit."""
    if key not in adata.uns or FILE not in adata.uns[key]:
        found = [name for name, value in adata.uns.items() if isinstance(value, dict) and FILE in value]
        known = f"there are {', '.join(map(repr, found))}" if found else "run partwise.tl.fit first"
        raise InvalidInputError(f"there is no model under key={key!r}: {known}.")
    entry = adata.uns[key]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(np.asarray(entry[FILE], dtype=np.uint8).tobytes())
        return load(path), dict(entry["params"])
