"""Structure plots, volcano plots and embeddings of models that `partwise.tl` has stored."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from partwise.contract.differential import Differential
from partwise.errors import InvalidInputError
from partwise.io.optional import require
from partwise.plotting import part_shares, plot_structure, plot_volcano
from partwise.plotting.figures import Axes, FigureBase, panel_grid
from partwise.tl.objects import kept, modality


def structure(
    adata: Any, groupby: str | None = None, *, key: str = "partwise", mod: str | None = None, **look: Any
) -> Axes:
    """Each bar is one cell; colours show how much of it each part explains.

    Parameters
    ----------
    adata
        AnnData with a model, or MuData together with ``mod``.
    groupby
        obs column: cells of one group are drawn side by side.
    key
        Key of the model.
    mod
        Modality of MuData.
    look
        Further arguments of `partwise.plotting.plot_structure`.

    Examples
    --------
    >>> import anndata, numpy as np, partwise
    >>> cells = anndata.AnnData(np.random.default_rng(0).poisson(2.0, size=(30, 8)).astype(float))
    >>> cells.obs["kind"] = ["T cell", "B cell", "T cell"] * 10
    >>> partwise.tl.fit(cells, 2, random_state=0)
    >>> ax = partwise.pl.structure(cells, "kind")
    >>> [text.get_text() for text in ax.texts]
    ['B cell', 'T cell']
    """
    data = modality(adata, mod)
    model, _ = kept(data, key)
    groups = None if groupby is None else _column(data, groupby)
    return plot_structure(data.obsm[f"X_{key}"], model=model, groups=groups, **look)


def markers(adata: Any, *, key: str = "partwise", mod: str | None = None, **look: Any) -> FigureBase:
    """One panel per part: log2 fold change and evidence for each gene, after `partwise.tl.markers`.

    Parameters
    ----------
    adata
        AnnData with a model and its markers, or MuData together with ``mod``.
    key
        Key of the model.
    mod
        Modality of MuData.
    look
        Further arguments of `partwise.plotting.plot_volcano`.

    Examples
    --------
    >>> import anndata, numpy as np, partwise
    >>> rates = np.kron(np.eye(2), np.full((50, 4), 10.0))  # two kinds of cells, four genes each
    >>> cells = anndata.AnnData(np.random.default_rng(0).poisson(rates).astype(float))
    >>> partwise.tl.fit(cells, 2, random_state=0)
    >>> partwise.tl.markers(cells)
    >>> [ax.get_xlabel() for ax in partwise.pl.markers(cells).axes]
    ['log2 fold change', 'log2 fold change']
    """
    data = modality(adata, mod)
    model, _ = kept(data, key)
    if f"{key}_lfsr" not in data.varm:
        raise InvalidInputError(f"there are no markers of key={key!r}: run partwise.tl.markers first.")
    change, error, mean, lfsr = (np.asarray(data.varm[f"{key}_{n}"]).T for n in ("change", "std_error", "mean", "lfsr"))
    nobody = np.full(change.shape, -1)
    if look.get("parts") is not None:
        look["parts"] = [model.part_position(k) for k in look["parts"]]
    found = Differential(change, error, mean, mean, mean, lfsr, nobody, model.part_labels(), list(data.var_names))
    return plot_volcano(found, **look)


def usage(
    adata: Any,
    *,
    key: str = "partwise",
    basis: str = "X_umap",
    parts: Sequence[int | str] | None = None,
    mod: str | None = None,
    fig: FigureBase | None = None,
) -> FigureBase:
    """Cells on an embedding, one panel per part: dark where the part explains much of a cell.

    Parameters
    ----------
    adata
        AnnData with a model and an embedding, or MuData together with ``mod``.
    key
        Key of the model.
    basis
        Key of the embedding in obsm, with or without ``X_``.
    parts
        Positions or names of the parts to draw; all by default.
    mod
        Modality of MuData.
    fig
        Figure to draw into; by default a new one.

    Examples
    --------
    >>> import anndata, numpy as np, partwise
    >>> rng = np.random.default_rng(0)
    >>> cells = anndata.AnnData(rng.poisson(2.0, size=(30, 8)).astype(float), obsm={"X_umap": rng.normal(size=(30, 2))})
    >>> partwise.tl.fit(cells, 2, random_state=0)
    >>> [ax.get_title(loc="left") for ax in partwise.pl.usage(cells).axes[:2]]
    ['part 0', 'part 1']
    """
    data = modality(adata, mod)
    model, _ = kept(data, key)
    found = basis if basis in data.obsm else f"X_{basis}"  # the name that scanpy uses
    if found not in data.obsm:
        raise InvalidInputError(f"basis={basis!r} is not in obsm; there are: {', '.join(data.obsm)}.")
    places, shares = np.asarray(data.obsm[found]), part_shares(data.obsm[f"X_{key}"], model)
    chosen = [model.part_position(k) for k in (range(shares.shape[1]) if parts is None else parts)]
    figure, axes = panel_grid(fig, len(chosen), 2.2, 2.0, widest=4)
    names = model.part_labels()
    colours = require("matplotlib.colors", "plot", "drawing")
    # Cells without the part stay visible but pale.
    shade = colours.LinearSegmentedColormap.from_list("usage", ["#DDDDDD", "#56B4E9", "#0072B2", "#001F3F"])
    most = float(shares[:, chosen].max()) or 1.0
    drawn: Any = None
    for ax, k in zip(axes, chosen, strict=True):
        order = np.argsort(shares[:, k], kind="stable")  # draw cells with most of the part on top
        look = {"s": 4, "linewidths": 0, "rasterized": True, "cmap": shade, "vmin": 0.0, "vmax": most}
        drawn = ax.scatter(places[order, 0], places[order, 1], c=shares[order, k], **look)
        ax.set_title(names[k], fontsize=8, loc="left")
        ax.set(xticks=[], yticks=[])
    bar = figure.colorbar(drawn, ax=axes, shrink=0.5, aspect=30)
    bar.set_label("share of a cell", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    return figure


def _column(data: Any, name: str) -> list[str]:
    if name not in data.obs:
        raise InvalidInputError(f"groupby={name!r} is not an obs column; there are: {', '.join(data.obs)}.")
    return [str(value) for value in data.obs[name]]
