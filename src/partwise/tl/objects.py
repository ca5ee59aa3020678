"""AnnData and MuData objects: which matrix is meant, and how a model is kept in one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from partwise.contract.features import positions_of
from partwise.contract.model_file import load
from partwise.core.coerce import as_table
from partwise.errors import InvalidInputError
from partwise.io.table import Table

FILE = "model_file"
"""Where in ``uns[key]`` the model file is, as bytes."""


def modality(data: Any, mod: str | None) -> Any:
    """The AnnData object that is meant: the object itself, or a modality of MuData."""
    if hasattr(data, "mod"):
        if mod not in data.mod:
            known = ", ".join(map(repr, data.mod))
            raise InvalidInputError(f"mod={mod!r} is not a modality of the MuData object: give one of {known}.")
        return data.mod[mod]
    if not hasattr(data, "obsm") or not hasattr(data, "varm"):
        raise InvalidInputError(f"an AnnData object is needed, got {type(data).__name__}.")
    if mod is not None:
        raise InvalidInputError(f"mod={mod!r} is for MuData objects, and this is AnnData: leave mod out.")
    return data


def counts_of(adata: Any, layer: str | None) -> Table:
    """The counts that are meant, with names; names that are there twice are refused."""
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
    places = positions_of(model.feature_names_in_, np.asarray(adata.var_names))
    # Genes that the model does not know have no entry.
    adata.varm[key] = np.where(places[:, None] < 0, np.nan, model.components_.T[places])
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
    """The model that is stored under a key, and the parameters of its fit."""
    if key not in adata.uns or FILE not in adata.uns[key]:
        found = [name for name, value in adata.uns.items() if isinstance(value, dict) and FILE in value]
        known = f"there are {', '.join(map(repr, found))}" if found else "run partwise.tl.fit first"
        raise InvalidInputError(f"there is no model under key={key!r}: {known}.")
    entry = adata.uns[key]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(np.asarray(entry[FILE], dtype=np.uint8).tobytes())
        return load(path), dict(entry["params"])
