"""Samples as stacked bars: how much of each sample each part explains."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats, Positions
from partwise.plotting import figures
from partwise.plotting.features import shortened
from partwise.plotting.order import checked_groups, cluster_order, evenly_spaced, part_order

_MOST_SAMPLES, _MOST_NAMES = 2000, 40
# When a name fits into a part: shares of the width and of the height, and the number of letters.
_ROOM_OF_A_NAME, _TALL_ENOUGH, _SHORT_ENOUGH = 0.06, 0.3, 12


def part_shares(activations: Any, model: Any = None) -> Floats:
    """Share of each sample that each part explains; the shares of a sample sum to 1.

    Parameters
    ----------
    activations
        Samples x parts, nonnegative.
    model
        Fitted model, or parts x features. An activation is then multiplied by the sum of its part, so that shares are
        shares of a sample's expected counts (or ones). Without it, activations are used as they are.

    Returns
    -------
    ndarray
        Samples x parts; zeros for a sample without activations.

    Examples
    --------
    >>> from partwise.plotting import part_shares
    >>> part_shares([[1, 1]], [[1, 0], [3, 0]]).tolist()
    [[0.25, 0.75]]
    """
    weights = np.asarray(activations, dtype=np.float64)
    if weights.ndim != 2 or 0 in weights.shape:
        raise InvalidInputError(f"activations must be samples x parts, got shape {weights.shape}.")
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        n, k = np.argwhere(wrong)[0]
        raise InvalidInputError(f"activations hold {weights[n, k]} in row {n}, column {k}: shares need numbers from 0.")
    if model is not None:
        components = figures.components_of(model)
        if components.shape[0] != weights.shape[1]:
            told = f"activations have {weights.shape[1]} columns, but the model has {components.shape[0]} parts"
            raise InvalidInputError(f"{told}: give activations of this model.")
        weights = weights * np.abs(components).sum(axis=1)
    totals = weights.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0))


def plot_structure(
    activations: Any,
    *,
    model: Any = None,
    groups: Sequence[Any] | None = None,
    names: Any = None,
    order: Literal["parts", "cluster", "given"] = "parts",
    parts: Sequence[int] | None = None,
    titles: Sequence[str] | None = None,
    title: str = "",
    counts: bool = False,
    ax: Any = None,
) -> figures.Axes:
    """Draw one bar per sample; colours show how much of it each part explains.

    Parameters
    ----------
    activations
        Samples x parts, such as ``model.transform(X)``. At most 2,000 samples, evenly spaced, are drawn.
    model
        Fitted model, or parts x features, as for `part_shares`; optional.
    groups
        The group of each sample. Groups are drawn side by side, with their names below and lines between them.
    names
        The name of each sample, written below its bar if there are at most 40 samples and no groups.
    order
        Order of the samples in a group: ``"parts"``, by the part that explains most; ``"cluster"``, by `cluster_order`;
        ``"given"``, unchanged.
    parts
        Which parts to draw, from the bottom up; by default all, largest first. There are 20 colours: if there are more
        parts, the smallest are grey.
    titles
        One title per part; by default its name, else ``part k``.
    title
        Title of the picture.
    counts
        Draw expected counts instead of shares.
    ax
        Axes to draw into; by default those of a new figure, which is ``ax.figure``.

    Returns
    -------
    Axes
        The axes drawn into.

    Examples
    --------
    >>> from partwise.plotting import plot_structure
    >>> ax = plot_structure([[3, 1], [1, 3], [4, 0]], groups=["a", "b", "a"])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['part 1', 'part 0']
    """
    if order not in ("parts", "cluster", "given"):
        raise InvalidInputError(f"order={order!r} is unknown; give 'parts', 'cluster' or 'given'.")
    shares = part_shares(activations, model)
    by_size = np.argsort(-shares.sum(axis=0), kind="stable").tolist()
    chosen = by_size if parts is None else figures.chosen_parts(parts, shares.shape[1])
    n_grey = len(chosen) - len(figures.PART_COLOURS) if parts is None and titles is None else 0
    if n_grey > 0:
        chosen = chosen[: len(figures.PART_COLOURS)]
    named = figures.part_titles(titles, model, chosen)
    belongs = None if groups is None else checked_groups(groups, shares.shape[0], "groups")
    runs = _runs(shares[:, chosen], evenly_spaced(shares.shape[0], _MOST_SAMPLES), belongs, order)
    columns = 1 + (len(chosen) - 1 + (n_grey > 0)) // 14
    ax = figures.given_or_new_axes(ax, 6.1 + 0.9 * columns, 2.4 + 0.12 * min(max(0, len(chosen) - 12), 8))
    drawn = np.concatenate([run for _, run in runs])
    heights, totals = shares[drawn], np.ones(len(drawn))
    if counts:
        weights = 1.0 if model is None else np.abs(figures.components_of(model)).sum(axis=1)
        totals = (np.asarray(activations, dtype=np.float64)[drawn] * weights).sum(axis=1)
    _stack(ax, heights[:, chosen] * totals[:, None], named, float(totals.max()))
    if n_grey > 0:
        look = {"facecolor": "#DDDDDD", "edgecolor": "none", "linewidth": 0, "label": f"{n_grey} other parts"}
        below = heights[:, chosen].sum(axis=1) * totals
        ax.stairs(totals * (heights.sum(axis=1) > 0), np.arange(len(drawn) + 1), baseline=below, fill=True, **look)
    _name_runs(ax, runs if belongs is not None else [])
    labels = [] if names is None else checked_groups(names, shares.shape[0], "names")
    bars = drawn if labels and belongs is None and len(drawn) <= _MOST_NAMES else drawn[:0]
    ax.set_xticks(np.arange(len(bars)) + 0.5, [shortened(labels[n]) for n in bars], rotation=90)
    ax.tick_params(axis="x", length=0)
    ax.set_ylim(0, 1 if not counts else None)
    ax.spines["bottom"].set_visible(False)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7, frameon=False, reverse=True, ncols=columns)
    label = "counts of a sample" if counts else "share of a sample"
    return figures.finish_axes(ax, y_label=label, title=title, label_size=8, tick_size=7)


def _runs(shares: Floats, rows: Positions, groups: list[str] | None, order: str) -> list[tuple[str, Positions]]:
    """Groups sorted by name, with the samples of each in the requested order."""
    if groups is None:
        members = {"": rows}
    else:
        members = {name: rows[[groups[n] == name for n in rows]] for name in sorted({groups[n] for n in rows})}
    ordered = {"given": lambda own: np.arange(len(own)), "parts": part_order, "cluster": cluster_order}[order]
    return [(name, run[ordered(shares[run])]) for name, run in members.items()]


def _stack(ax: Any, shares: Floats, names: list[str], top: float) -> None:
    edges = np.arange(shares.shape[0] + 1)
    tops = np.cumsum(shares, axis=1)
    for position, name in enumerate(names):
        below = tops[:, position - 1] if position else np.zeros(shares.shape[0])
        look = {"facecolor": figures.part_colour(position), "edgecolor": "none", "linewidth": 0}
        ax.stairs(tops[:, position], edges, baseline=below, fill=True, label=shortened(name), **look)
        _name_inside(ax, below, tops[:, position], name, figures.part_colour(position), top)
    ax.set_xlim(0, shares.shape[0])


def _name_inside(ax: Any, below: Floats, above: Floats, name: str, colour: str, top: float) -> None:
    """Write a part's name where it is widest, if there is space, so that nobody has to look up its colour."""
    window = max(1, int(_ROOM_OF_A_NAME * above.size))
    height = np.convolve(above - below, np.ones(window) / window, mode="valid")
    at = int(np.argmax(height))
    if window > 1 and height[at] >= _TALL_ENOUGH * top and len(name) <= _SHORT_ENOUGH:
        run = slice(at, at + window)
        room = above[run] - below[run]
        across = np.average(np.arange(at, at + window) + 0.5, weights=room)  # inside the part, not at its border
        middle = np.average((below[run] + above[run]) / 2.0, weights=room)
        ax.text(across, middle, name, fontsize=6, ha="center", va="center", color=figures.ink_on(colour))


def _name_runs(ax: Any, runs: list[tuple[str, Positions]]) -> None:
    start = 0
    for name, run in runs:
        if start:
            ax.axvline(start, color="black", linewidth=1.0)
        place = (start + 0.5 * len(run), 0.0)
        start += len(run)
        look: dict[str, Any] = {"ha": "center"}
        if len(runs) > 6:
            look = {"ha": "right", "rotation": 45, "rotation_mode": "anchor"}
        figures.write_beside(
            ax, shortened(name), place, offset=(0, -4), va="top", color="black", annotation_clip=False, **look
        )
