"""Parts as images."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from partwise.errors import InvalidInputError
from partwise.plotting.figures import INK, FigureBase, components_of, part_panels


def plot_parts_images(
    components: Any,
    shape: tuple[int, int],
    *,
    parts: Sequence[int] | None = None,
    titles: Sequence[str] | None = None,
    n_columns: int | None = None,
    common_scale: bool = False,
    fig: FigureBase | None = None,
) -> FigureBase:
    """Draw every part as an image: larger pixels are darker.

    Parameters
    ----------
    components
        Fitted model, or parts x pixels.
    shape
        Height and width of an image; pixels are numbered row by row.
    parts
        Which parts, in which order; all by default.
    titles
        One title per part; by default its name, else ``part k``; an empty text for no title.
    n_columns
        Number of images per row; by default up to eight.
    common_scale
        Whether the same grey means the same value in all images.
    fig
        Figure or subfigure to draw into; by default a new one.

    Returns
    -------
    Figure
        The figure drawn into.

    Examples
    --------
    >>> from partwise.plotting import plot_parts_images
    >>> len(plot_parts_images([[0, 1, 1, 0], [1, 0, 0, 1]], (2, 2)).axes)
    2
    """
    images = components_of(components)
    height, width = checked_pixels(shape, images.shape[1], "the parts have")
    size = (1.1, 1.1 * height / width + 0.25)
    figure, drawn = part_panels(fig, components, images.shape[0], parts, titles, size, n_columns=n_columns, widest=8)
    largest = max(images[k].max() for _, k, _ in drawn)
    for ax, k, title in drawn:
        draw_picture(ax, images[k], shape, top=largest if common_scale else None)
        ax.set_title(title, fontsize=8, pad=2)
    return figure


def checked_pixels(shape: tuple[int, int], n_features: int, owner: str, name: str = "shape") -> tuple[int, int]:
    """Height and width of images with one pixel per feature."""
    height, width = shape
    if height < 1 or width < 1 or height * width != n_features:
        told = f"{name}={tuple(shape)} has {height * width} pixels, but {owner} {n_features} features"
        raise InvalidInputError(f"{told}: give a height and a width that multiply to {n_features}.")
    return height, width


def draw_picture(
    ax: Any, pixels: Any, shape: tuple[int, int], *, top: float | None = None, extent: Sequence[float] | None = None
) -> None:
    """Draw one image; `top` is the value drawn black, by default the largest; `extent` is its position in the axes."""
    values = np.asarray(pixels, dtype=np.float64).reshape(shape)
    top = float(values.max()) if top is None else top
    # An empty image is white, not black.
    limits = {"vmin": 0.0, "vmax": top if top > 0 else 1.0}
    ax.imshow(values, cmap=INK, interpolation="nearest", extent=extent, **limits)
    ax.set(xticks=[], yticks=[])
