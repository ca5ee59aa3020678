"""Data and their reconstruction by a model, side by side."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from partwise.kernels.arrays import Floats, Positions
from partwise.plotting.figures import FigureBase, panels
from partwise.plotting.heatmap import draw_cells
from partwise.plotting.images import checked_pixels, draw_picture
from partwise.plotting.order import cluster_order
from partwise.plotting.predictive import chosen_samples

_FEW_PICTURES = 8
_MOST_ROWS = 500
_MOST_COLUMNS = 300
_BLACK = 0.95
# Residuals of this many standard errors have the darkest colour.
_MOST_ERRORS = 4.0


def plot_reconstruction(
    model: Any,
    X: Any,
    *,
    shape: tuple[int, int] | None = None,
    samples: Sequence[int] | Positions | None = None,
    power: float = 0.5,
    fig: FigureBase | None = None,
) -> FigureBase:
    """Draw the data beside their expected values under the model and, as heat maps, the residuals.

    Parameters
    ----------
    model
        Any fitted estimator.
    X
        Data as for its ``fit``.
    shape
        Height and width, if samples are images: each is then drawn above its reconstruction. Otherwise data,
        reconstruction and residuals (blue: more than expected, red: less) are heat maps of the 300 largest features,
        with rows and columns clustered by the reconstruction.
    samples
        Which samples; by default eight images, or up to 500 rows, evenly spaced.
    power
        Greys of heat maps of counts, as for `plot_matrix`; bits and probabilities use a linear scale.
    fig
        Figure or subfigure to draw into; by default a new one.

    Returns
    -------
    Figure
        The figure drawn into.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import PoissonNMF
    >>> from partwise.plotting import plot_reconstruction
    >>> X = np.kron(np.eye(2), np.ones((3, 4)))
    >>> len(plot_reconstruction(PoissonNMF(2, random_state=0).fit(X), X).axes)
    3
    """
    data = model.checked_data(X, caller="plot_reconstruction")
    rows, table = chosen_samples(model, data, samples, _MOST_ROWS if shape is None else _FEW_PICTURES)
    observed = table.matrix.toarray().astype(np.float64)
    observed[data.missing_matrix()[rows].toarray()] = np.nan
    expected = model.inverse_transform(model.transform(table))
    if shape is not None:
        return _pictures(observed, expected, shape, rows, fig)
    return _heat_maps(observed, expected, 1.0 if model.declares.data == "bits" else power, fig)


def _pictures(
    observed: Floats, expected: Floats, shape: tuple[int, int], rows: Positions, fig: FigureBase | None
) -> FigureBase:
    height, width = checked_pixels(shape, observed.shape[1], "the data have")
    figure, axes = panels(fig, 2, len(rows), 1.1, 1.1 * height / width + 0.25)
    for column, row in enumerate(rows):
        top = float(np.nanmax(observed[column], initial=0.0))
        for panel, pixels in ((column, np.nan_to_num(observed[column])), (len(rows) + column, expected[column])):
            draw_picture(axes[panel], pixels, shape, top=top)
        axes[column].set_title(f"sample {row}", fontsize=7, pad=2)
    axes[0].set_ylabel("data", fontsize=8)
    axes[len(rows)].set_ylabel("model", fontsize=8)
    return figure


def _heat_maps(observed: Floats, expected: Floats, power: float, fig: FigureBase | None) -> FigureBase:
    largest = np.sort(np.argsort(-np.nansum(observed, axis=0), kind="stable")[:_MOST_COLUMNS])
    observed, expected = observed[:, largest], expected[:, largest]
    figure, axes = panels(fig, 1, 3, 3.0, float(np.clip(3.4 * observed.shape[0] / observed.shape[1], 2.0, 5.0)))
    cells = np.ix_(cluster_order(expected), cluster_order(expected.T))
    present = observed[observed > 0]
    # A few very large counts would leave all others white.
    top = max(float(np.quantile(present, _BLACK)) if present.size else 0.0, 1.0)
    residual = observed - expected
    residual *= 1.0 if top == 1.0 else 1.0 / np.sqrt(np.maximum(expected, 1.0 / top))
    titles = "data", "model", "residual" if top == 1.0 else "residual in standard errors"
    for ax, values, title in zip(axes, (observed, expected, residual), titles, strict=True):
        if values is residual:
            limit = 1.0 if top == 1.0 else _MOST_ERRORS
            ax.imshow(values[cells], cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
        else:
            draw_cells(ax, values[cells], top=top, power=power)
        ax.set(xticks=[], yticks=[])
        ax.set_title(title, fontsize=9)
        ax.set_xlabel("features", fontsize=8)
    axes[0].set_ylabel("samples", fontsize=8)
    return figure
