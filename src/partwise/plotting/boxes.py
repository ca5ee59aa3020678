"""Repeated measurements as boxes: perplexities of methods over splits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from partwise.errors import InvalidInputError
from partwise.plotting._figures import (
    BLUE,
    GREY,
    ORANGE,
    Axes,
    FigureBase,
    Floats,
    finish_axes,
    given_or_new_axes,
    panels,
    write_beside,
)

_PER_BOX = 0.22


def plot_boxes(
    values: Mapping[str, Sequence[float]],
    *,
    highlight: Collection[str] = (),
    reference: float | None = None,
    top: float | None = None,
    ylabel: str = "perplexity",
    title: str = "",
    ax: Any = None,
) -> Axes:
    """Draw one box per method: median, quartiles, and all measurements as dots.

    Parameters
    ----------
    values
        Measurements by name, drawn from left to right.
    highlight
        Names whose boxes are orange and hatched, the others being blue.
    reference
        Where to draw a dotted line, such as the score of one constant prediction.
    top
        Upper end of the axis; boxes wholly above it are replaced by an arrow with their median.
    ylabel, title
        Texts.
    ax
        Axes to draw into; by default those of a new figure, which is ``ax.figure``.

    Returns
    -------
    Axes
        The axes drawn into.

    Examples
    --------
    >>> from partwise.plotting import plot_boxes
    >>> ax = plot_boxes({"gibbs": [0.51, 0.53, 0.5], "vb": [0.47, 0.48, 0.48]})
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['gibbs', 'vb']
    """
    samples = _samples(values)
    unknown = [name for name in highlight if name not in samples]
    if unknown:
        raise InvalidInputError(f"highlight holds {unknown[0]!r}, which is not among the values.")
    ax = given_or_new_axes(ax, 1.0 + _PER_BOX * len(samples), 3.0)
    shown = {name: sample for name, sample in samples.items() if top is None or sample.min() <= top}
    if shown:
        _draw(ax, list(samples), shown, set(highlight))
    if reference is not None:
        ax.axhline(reference, color=GREY, linewidth=0.8, linestyle=":")
    if top is not None:
        ax.set_ylim(top=top)
    for position, (name, sample) in enumerate(samples.items()):
        if name not in shown:
            where: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "center", "va": "top", "rotation": 90}
            write_beside(ax, f"{np.median(sample):.3g}↑", (position, 1.0), size=6, **where)
    ax.set_xlim(-0.6, len(samples) - 0.4)
    ax.set_xticks(np.arange(len(samples)), [name.replace("$", r"\$") for name in samples], rotation=90)
    return finish_axes(ax, y_label=ylabel, title=title, label_size=8, tick_size=7)


def plot_box_panels(
    values: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    highlight: Collection[str] = (),
    references: Mapping[str, float] | None = None,
    tops: Mapping[str, float] | None = None,
    ylabel: str = "perplexity",
    fig: FigureBase | None = None,
) -> FigureBase:
    """Draw one panel of boxes per data set, each with its own scale.

    Parameters
    ----------
    values
        By panel, measurements by name.
    highlight
        As for `plot_boxes`.
    references, tops
        ``reference`` and ``top`` of `plot_boxes` by panel.
    ylabel
        Of each panel.
    fig
        Figure or subfigure to draw into; by default a new one.

    Returns
    -------
    Figure
        The figure drawn into.

    Examples
    --------
    >>> from partwise.plotting import plot_box_panels
    >>> len(plot_box_panels({"votes": {"vb": [1.0, 2.0]}, "fossils": {"vb": [3.0, 4.0]}}).axes)
    2
    """
    if not values:
        raise InvalidInputError("values is empty; give measurements by panel.")
    widest = max(len(panel) for panel in values.values())
    figure, axes = panels(fig, len(values), 1, 1.0 + _PER_BOX * widest, 2.2)
    for ax, (name, panel) in zip(axes, values.items(), strict=True):
        plot_boxes(
            panel,
            highlight=[method for method in highlight if method in panel],
            reference=(references or {}).get(name),
            top=(tops or {}).get(name),
            ylabel=ylabel,
            title=name,
            ax=ax,
        )
    return figure


def _draw(ax: Any, names: list[str], shown: dict[str, Floats], highlight: set[str]) -> None:
    positions = [names.index(name) for name in shown]
    drawn = ax.boxplot(
        list(shown.values()),
        positions=positions,
        widths=0.6,
        showfliers=False,
        patch_artist=True,
        medianprops={"color": "black", "linewidth": 1.2},
        whiskerprops={"color": GREY},
        capprops={"color": GREY},
    )
    for box, name in zip(drawn["boxes"], shown, strict=True):
        marked = name in highlight
        box.set(facecolor=ORANGE if marked else BLUE, alpha=0.45, hatch="///" if marked else None, edgecolor=GREY)
    for position, sample in zip(positions, shown.values(), strict=True):
        ax.plot(np.full(sample.size, position), sample, "k.", markersize=2)


def _samples(values: Mapping[str, Sequence[float]]) -> dict[str, Floats]:
    if not values:
        raise InvalidInputError("values is empty; give measurements by name.")
    samples = {str(name): np.asarray(sample, dtype=np.float64) for name, sample in values.items()}
    for name, sample in samples.items():
        if sample.ndim != 1 or sample.size == 0 or not np.all(np.isfinite(sample)):
            raise InvalidInputError(f"values[{name!r}] must be a list of finite numbers, at least one.")
    return samples
