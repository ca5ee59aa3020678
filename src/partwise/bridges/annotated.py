"""Results in an AnnData object: activations in obsm, parts in varm."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.core.coerce import as_table
from partwise.errors import InvalidInputError
from partwise.io.annotated import ACTIVATIONS_KEY, DICTIONARY_KEY, METADATA_KEY


def add_to_anndata(data: Any, model: Any, *, layer: str | None = None) -> Any:
    """Add a fitted model's activations and parts to an AnnData object, where scanpy and friends look for them.

    Parameters
    ----------
    data
        AnnData whose rows are samples and whose columns are the features of the fit; it is changed in place.
    model
        A fitted model.
    layer
        Layer of ``data`` that holds the counts; None = ``data.X``.

    Returns
    -------
    AnnData
        ``data`` itself, with ``obsm["X_partwise"]`` (samples x parts), ``varm["partwise"]`` (features x parts) and
        ``uns["partwise"]`` (model, names of the parts, how the fit ended).

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from partwise import PoissonNMF
    >>> from partwise.bridges import add_to_anndata
    >>> cells = anndata.AnnData(np.random.default_rng(0).poisson(2.0, size=(20, 6)).astype(float))
    >>> model = PoissonNMF(2, random_state=0).fit(cells)
    >>> add_to_anndata(cells, model).obsm["X_partwise"].shape
    (20, 2)
    """
    if not hasattr(data, "obsm") or not hasattr(data, "varm"):
        raise InvalidInputError(f"data must be an AnnData object, got {type(data).__name__}.")
    if layer is not None and layer not in data.layers:
        raise InvalidInputError(f"there is no layer {layer!r}; there are {', '.join(data.layers) or 'none'}.")
    table = as_table(data)
    if layer is not None:
        from dataclasses import replace

        table = replace(as_table(data.layers[layer]), row_labels=table.row_labels, column_labels=table.column_labels)
    activations = np.asarray(model.transform(table), dtype=np.float64)
    data.obsm[ACTIVATIONS_KEY] = activations
    data.varm[DICTIONARY_KEY] = np.ascontiguousarray(model.components_.T)
    data.uns[METADATA_KEY] = {
        "model": type(model).__name__,
        "parts": np.array(model.part_labels()),
        "active_components": np.asarray(model.active_components_),
        "status": str(model.status_),
    }
    return data
