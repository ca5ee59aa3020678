"""Figures without global state: matplotlib's object interface, no pyplot, no display.

Also, colours that distinguish many parts, also for colour-blind readers.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from partwise.contract.estimator import FactorizationEstimator
from partwise.errors import InvalidInputError
from partwise.io.atomic import write_atomically
from partwise.io.optional import require
from partwise.kernels.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
    from matplotlib.figure import FigureBase as FigureBase
else:
    # For type checkers only: matplotlib is optional.
    Axes = Figure = FigureBase = Any


BLUE = "#0072B2"
ORANGE = "#D55E00"
GREY = "#666666"
"""Colours of Okabe and Ito. Colour-blind readers can tell them apart, and so can readers of a grey print."""

INK = "Greys"
"""Colour map of pictures: zero is white, as on paper."""


def new_figure(width: float, height: float, *, layout: str | None = "constrained") -> Figure:
    """Make a figure (size in inches) without a window; `layout` arranges its axes."""
    figure: Figure = require("matplotlib.figure", "plot", "drawing").Figure(figsize=(width, height), layout=layout)
    return figure


def given_or_new_axes(ax: Any, width: float, height: float) -> Any:
    """The given axes, or those of a new figure of this size in inches."""
    return new_figure(width, height).add_subplot() if ax is None else ax


def finish_axes(
    ax: Any,
    x_label: str = "",
    y_label: str = "",
    *,
    title: str = "",
    title_size: float = 9,
    title_place: Literal["left", "center"] = "left",
    label_size: float | None = None,
    tick_size: float | None = None,
    legend_size: float | None = None,
) -> Axes:
    """Write labels, title and (if it has a size) the legend, and remove the upper and right sides of the frame."""
    label_look = {} if label_size is None else {"fontsize": label_size}
    ax.set_xlabel(x_label, **label_look)
    ax.set_ylabel(y_label, **label_look)
    ax.set_title(title, fontsize=title_size, loc=title_place)
    if tick_size is not None:
        ax.tick_params(labelsize=tick_size)
    if legend_size is not None:
        ax.legend(fontsize=legend_size, frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return cast(Axes, ax)


def write_beside(
    ax: Any, text: str, place: tuple[float, float], *, offset: tuple[int, int] = (0, 0), size: float = 7, **look: Any
) -> None:
    """Write a small text some points away from a position in the axes; ``xycoords`` gives its units."""
    ax.annotate(text, place, xytext=offset, textcoords="offset points", fontsize=size, **{"color": GREY, **look})


def save_figure(figure: Figure, path: str | os.PathLike[str], *, dpi: int = 150) -> None:
    """Write a figure to a file, completely or not at all; the suffix is the format (.png, .pdf, .svg).

    Parameters
    ----------
    figure
        The result of a plotting function, or ``ax.figure``.
    path
        The file.
    dpi
        Dots per inch of pixel formats.

    Examples
    --------
    >>> import tempfile
    >>> from partwise.plotting import plot_parts_images, save_figure
    >>> save_figure(plot_parts_images([[0, 1, 1, 0]], (2, 2)), tempfile.mkdtemp() + "/parts.png")
    """
    suffix = os.path.splitext(os.fspath(path))[1].lstrip(".").lower()  # noqa: PTH122 - also for text paths
    known = sorted(figure.canvas.get_supported_filetypes())
    if suffix not in known:
        raise InvalidInputError(f"path={os.fspath(path)!r} has no suffix that says its format; known are {known}.")
    write_atomically(path, lambda aside: figure.savefig(aside, format=suffix, dpi=dpi))


def components_of(model: Any) -> Floats:
    """Parts x features of a fitted model or of an array, checked to be a finite matrix."""
    components = np.asarray(model.components_ if isinstance(model, FactorizationEstimator) else model, dtype=np.float64)
    if components.ndim != 2 or 0 in components.shape:
        raise InvalidInputError(
            f"the parts must be a matrix of parts x features, got shape {components.shape}; "
            "pass a fitted model or its components_."
        )
    if not np.all(np.isfinite(components)):
        raise InvalidInputError("the parts hold NaN or infinity; pass those of a fitted model.")
    return components


def chosen_parts(parts: Any, n_components: int) -> list[int]:
    """Positions of the parts to draw, all by default."""
    if parts is None:
        return list(range(n_components))
    chosen = [int(part) for part in parts]
    for part in chosen:
        if not 0 <= part < n_components:
            raise InvalidInputError(f"parts holds {part}, but there are only parts 0 to {n_components - 1}.")
    if not chosen:
        raise InvalidInputError("parts is empty; give the positions of the parts to draw.")
    return chosen


def part_titles(titles: Any, model: Any, chosen: list[int]) -> list[str]:
    """One title per part: by default the names of the model's parts if there are any, else ``part k``."""
    if titles is None:
        names = model.part_labels() if isinstance(model, FactorizationEstimator) else None
        return [f"part {k}" if names is None else names[k] for k in chosen]
    given = [str(title) for title in titles]
    if len(given) != len(chosen):
        raise InvalidInputError(f"titles has {len(given)} entries for {len(chosen)} parts; give one each.")
    return given


def part_panels(
    fig: FigureBase | None,
    model: Any,
    n_components: int,
    parts: Any,
    titles: Any,
    size: tuple[float, float],
    *,
    n_columns: int | None = None,
    widest: int,
) -> tuple[FigureBase, list[tuple[Any, int, str]]]:
    """A figure with one panel per part, and for each panel its axes, the position of its part and its title.

    ``parts``, ``titles`` and ``n_columns`` come from the caller; ``size`` is the size of a panel in inches.
    """
    chosen = chosen_parts(parts, n_components)
    names = part_titles(titles, model, chosen)
    figure, axes = panel_grid(fig, len(chosen), *size, n_columns=n_columns, widest=widest)
    return figure, list(zip(axes, chosen, names, strict=True))


def grid(n_panels: int, n_columns: int | None, widest: int) -> tuple[int, int]:
    """Rows and columns of a grid of panels; by default as few rows as `widest` allows, filled evenly.

    Examples
    --------
    >>> grid(6, None, widest=5)
    (2, 3)
    """
    columns = n_columns if n_columns is not None else math.ceil(n_panels / math.ceil(max(n_panels, 1) / widest))
    if columns < 1:
        raise InvalidInputError(f"n_columns must be at least 1, got {columns}.")
    return math.ceil(n_panels / columns), columns


def panels(
    fig: FigureBase | None, rows: int, columns: int, width: float, height: float
) -> tuple[FigureBase, list[Any]]:
    """A figure (the given one, or a new one with panels of this size in inches) and its axes, row by row."""
    figure: Any = new_figure(columns * width, rows * height) if fig is None else fig
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def panel_grid(
    fig: FigureBase | None, n_panels: int, width: float, height: float, *, n_columns: int | None = None, widest: int
) -> tuple[FigureBase, list[Any]]:
    """Like `panels`, in rows of ``n_columns`` panels, by default up to ``widest``. Unused places stay blank."""
    figure, axes = panels(fig, *grid(n_panels, n_columns, widest), width, height)
    for ax in axes[n_panels:]:
        ax.set_axis_off()
    return figure, axes[:n_panels]


COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#666666")
"""Colours of Okabe and Ito, dark and light in turn."""

PART_COLOURS = (
    *("#0072B2", "#D55E00", "#56B4E9", "#E69F00", "#666666", "#F0E442", "#009E73", "#8C0DF2", "#0DF2F2", "#73260D"),
    *("#260D8C", "#D9A6A6", "#590D59", "#8CF273", "#CC79A7", "#8C73F2", "#A65940", "#BFF2A6", "#264040", "#A6A659"),
)
"""The same and twelve more, as different as possible in CIELAB, also in simulated colour blindness.

Neighbours in this order are at least 40 apart, so that parts which touch in a picture can be told apart.
"""

TINTS = ("#56B4E9", "#333333", "#D55E00", "#CCCCCC", "#009E73", "#CC79A7")
"""Six of them, close to the colours that are customary for mutation signatures."""


def part_colour(position: int) -> str:
    """The colour for the part at a position; the first 20 differ.

    Examples
    --------
    >>> part_colour(0) != part_colour(8)
    True
    """
    return PART_COLOURS[position % len(PART_COLOURS)]


def ink_on(colour: str) -> str:
    """Black or white, whichever is easier to read on a colour.

    Examples
    --------
    >>> ink_on("#0072B2"), ink_on("#F0E442")
    ('white', 'black')
    """
    red, green, blue = (int(colour[at : at + 2], 16) / 255.0 for at in (1, 3, 5))
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else "black"
