"""`fit`, `consensus`, `project` and `markers`: each writes its result into the AnnData object."""

from typing import Any

import numpy as np

from partwise import restarts
from partwise._registry import find_estimator
from partwise.contract.differential import Versus
from partwise.contract.estimator import FactorizationEstimator
from partwise.contract.features import parts_of_features
from partwise.errors import InvalidInputError
from partwise.tl.objects import counts_of, keep, kept, modality, opened


def fit(
    adata: Any,
    n_components: int = 10,
    *,
    model: str | FactorizationEstimator = "poisson",
    layer: str | None = None,
    batch_key: str | None = None,
    key_added: str = "partwise",
    mod: str | None = None,
    copy: bool = False,
    **parameters: Any,
) -> Any:
    """Fit a model to the counts of an AnnData object.

    Parameters
    ----------
    adata
        AnnData, or MuData together with ``mod``.
    n_components
        Number of parts (gene programmes).
    model
        Name of a model as in the command, such as ``"gamma-poisson"``; or an unfitted estimator with its own
        parameters.
    layer
        Layer with the raw counts; None = ``adata.X``.
    batch_key
        obs column with the batch of each cell.
    key_added
        Key under which results are stored.
    mod
        Modality of MuData.
    copy
        Return a copy with the results instead of writing into ``adata``.
    parameters
        Parameters of the model, such as ``random_state`` and ``n_jobs``.

    Returns
    -------
    AnnData or None
        A copy if requested. Results: ``obsm["X_KEY"]`` (cells x parts), ``varm["KEY"]`` (genes x parts) and
        ``uns["KEY"]`` (parameters, names of the parts, the model itself).

    Examples
    --------
    >>> import anndata, numpy as np, partwise
    >>> cells = anndata.AnnData(np.random.default_rng(0).poisson(2.0, size=(30, 8)).astype(float))
    >>> partwise.tl.fit(cells, 2, random_state=0)
    >>> cells.obsm["X_partwise"].shape, partwise.tl.stored_model(cells).n_components_
    ((30, 2), 2)
    """
    whole, data = opened(adata, mod, copy)
    estimator = _estimator(model, n_components, parameters)
    given = _batches(estimator, data, batch_key)
    table = counts_of(data, layer)
    estimator.fit(table, **given)
    params = {**_storable(parameters), "n_components": n_components, "layer": layer, "batch_key": batch_key}
    keep(data, estimator, estimator.transform(table, **given), key_added, params)
    return whole if copy else None


def consensus(
    adata: Any,
    n_components: int = 10,
    *,
    n_restarts: int = 20,
    max_samples: int | None = None,
    model: str | FactorizationEstimator = "poisson",
    layer: str | None = None,
    batch_key: str | None = None,
    key_added: str = "consensus",
    density_threshold: float = 0.5,
    mod: str | None = None,
    copy: bool = False,
    **parameters: Any,
) -> Any:
    """Fit a model from many random starts, and store the parts that the fits agree on.

    Parameters
    ----------
    adata, n_components, model, layer, batch_key, key_added, mod, copy, parameters
        As for `fit`.
    n_restarts, max_samples, density_threshold
        As for `partwise.consensus`; ``max_samples`` is a number of cells.

    Returns
    -------
    AnnData or None
        A copy if requested. In addition to the results of `fit`, ``varm["KEY_lower"]`` and ``varm["KEY_upper"]`` hold
        the bands over restarts, and ``uns["KEY"]`` the stability, the silhouette and how many restarts found each part.

    Examples
    --------
    >>> import anndata, numpy as np, partwise
    >>> rates = np.kron(np.eye(2), np.full((50, 4), 10.0))  # two kinds of cells, four genes each
    >>> cells = anndata.AnnData(np.random.default_rng(0).poisson(rates).astype(float))
    >>> partwise.tl.consensus(cells, 2, n_restarts=3, random_state=0)
    >>> cells.uns["consensus"]["members"].tolist(), cells.varm["consensus_lower"].shape
    ([3, 3], (8, 2))
    """
    whole, data = opened(adata, mod, copy)
    estimator = _estimator(model, n_components, parameters)
    table, given = counts_of(data, layer), _batches(estimator, data, batch_key)
    options: Any = {"n_restarts": n_restarts, "max_samples": max_samples, "density_threshold": density_threshold}
    found = restarts.consensus(estimator, table, **options, **given)
    options |= {**parameters, "n_components": n_components, "layer": layer, "batch_key": batch_key}
    keep(data, found.model, found.activations, key_added, _storable(options))
    for name in ("lower", "upper"):
        data.varm[f"{key_added}_{name}"] = parts_of_features(found.model, getattr(found, name), data.var_names)
    data.uns[key_added].update(stability=found.stability, silhouette=found.clusters.silhouette, members=found.members)
    return whole if copy else None


def project(
    adata: Any,
    reference: Any,
    *,
    key: str = "partwise",
    layer: str | None = None,
    batch_key: str | None = None,
    key_added: str | None = None,
    mod: str | None = None,
    copy: bool = False,
) -> Any:
    """Find the activations of other cells for the fixed parts of a model.

    Parameters
    ----------
    adata
        AnnData, or MuData together with ``mod``. Genes are matched by name: those that it lacks count as missing, and
        those that the model does not have are left out (NaN in ``varm``).
    reference
        AnnData that holds the model under ``key``, or a fitted model.
    key
        Key of the model in ``reference``.
    layer, batch_key
        As for `fit`; batches may be new.
    key_added
        Key under which results are stored; None = ``key``.
    mod, copy
        As for `fit`.

    Examples
    --------
    >>> import anndata, numpy as np, partwise
    >>> cells = anndata.AnnData(np.random.default_rng(0).poisson(2.0, size=(30, 8)).astype(float))
    >>> partwise.tl.fit(cells, 2, random_state=0)
    >>> others = anndata.AnnData(np.random.default_rng(1).poisson(2.0, size=(5, 8)).astype(float))
    >>> partwise.tl.project(others, cells)
    >>> others.obsm["X_partwise"].shape
    (5, 2)
    """
    whole, data = opened(adata, mod, copy)
    model = reference
    if not isinstance(reference, FactorizationEstimator):
        model = stored_model(reference, key=key, mod=mod if hasattr(reference, "mod") else None)
    given = _batches(model, data, batch_key)
    params = {"layer": layer, "batch_key": batch_key, "projected": True}
    keep(data, model, model.transform(counts_of(data, layer), **given), key_added or key, params)
    return whole if copy else None


def markers(
    adata: Any,
    *,
    key: str = "partwise",
    versus: Versus = "least-extreme",
    lfsr: float = 0.05,
    n: int = 50,
    mod: str | None = None,
    copy: bool = False,
) -> Any:
    """Find the genes that mark each part: log-fold changes against other parts, with local false sign rates.

    Parameters
    ----------
    adata
        AnnData with a model under ``key``, fitted to its counts; or MuData together with ``mod``.
    key
        Key of the model.
    versus
        As for ``differential`` of a model.
    lfsr
        Largest local false sign rate of a marker.
    n
        Largest number of markers listed per part.
    mod, copy
        As for `fit`.

    Returns
    -------
    AnnData or None
        A copy if requested. ``varm["KEY_change"]``, ``varm["KEY_std_error"]`` and ``varm["KEY_mean"]`` (log2, genes x
        parts), ``varm["KEY_lfsr"]``; ``uns["KEY"]["markers"]`` lists the markers of each part, best first.

    Examples
    --------
    >>> import anndata, numpy as np, partwise
    >>> rates = np.kron(np.eye(2), np.full((50, 4), 10.0))  # two kinds of cells, four genes each
    >>> cells = anndata.AnnData(np.random.default_rng(0).poisson(rates).astype(float))
    >>> partwise.tl.fit(cells, 2, random_state=0)
    >>> partwise.tl.markers(cells)
    >>> {part: sorted(genes.tolist()) for part, genes in cells.uns["partwise"]["markers"].items()}
    {'part 0': ['0', '1', '2', '3'], 'part 1': ['4', '5', '6', '7']}
    """
    whole, data = opened(adata, mod, copy)
    model, params = kept(data, key)
    given = _batches(model, data, params.get("batch_key"))
    found = model.differential(counts_of(data, params.get("layer")), versus=versus, **given)
    for name in ("change", "std_error", "mean", "lfsr"):
        unknown = 1.0 if name == "lfsr" else np.nan
        data.varm[f"{key}_{name}"] = parts_of_features(model, getattr(found, name), data.var_names, unknown)
    listed = {part: np.array(found.top(k, n, lfsr=lfsr), dtype=np.str_) for k, part in enumerate(found.parts)}
    data.uns[key]["markers"] = listed
    return whole if copy else None


def stored_model(adata: Any, *, key: str = "partwise", mod: str | None = None) -> Any:
    """The fitted model that `fit` or `consensus` stored.

    Parameters
    ----------
    adata
        AnnData, or MuData together with ``mod``.
    key
        Key of the model.
    mod
        Modality of MuData.

    Examples
    --------
    >>> import anndata, numpy as np, partwise
    >>> cells = anndata.AnnData(np.random.default_rng(0).poisson(2.0, size=(30, 8)).astype(float))
    >>> partwise.tl.fit(cells, 2, random_state=0)
    >>> partwise.tl.stored_model(cells)
    PoissonNMF(n_components=2, random_state=0)
    """
    return kept(modality(adata, mod), key)[0]


def _estimator(model: str | FactorizationEstimator, n_components: int, parameters: dict[str, Any]) -> Any:
    if not isinstance(model, str):
        if parameters:
            name = next(iter(parameters))
            raise InvalidInputError(f"{name} was given beside an estimator: set it on the estimator.")
        return model
    return find_estimator(model)(n_components=n_components, **parameters)


def _storable(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters that AnnData files can store."""
    return {name: value for name, value in parameters.items() if isinstance(value, bool | int | float | str)}


def _batches(model: Any, data: Any, batch_key: str | None) -> dict[str, Any]:
    if batch_key is None:
        return {}
    if not model.declares.batches:
        raise InvalidInputError(f"{type(model).__name__} does not take batches: leave batch_key out.")
    if batch_key not in data.obs:
        columns = ", ".join(data.obs) or "none"
        raise InvalidInputError(f"batch_key={batch_key!r} is not an obs column; there are: {columns}.")
    return {"batch": np.asarray(data.obs[batch_key])}
