"""Mutation signatures as bars: 96 channels, grouped by substitution."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from partwise.contract.estimator import FactorizationEstimator
from partwise.errors import InvalidInputError
from partwise.io.table import Table, as_labels
from partwise.plotting.features import feature_names, percent_axis
from partwise.plotting.figures import GREY, TINTS, FigureBase, components_of, ink_on, panels, part_panels
from partwise.plotting.predictive import chosen_samples
from partwise.refit import match

SUBSTITUTIONS = ("C>A", "C>G", "C>T", "T>A", "T>C", "T>G")
"""Kinds of substitution, by the pyrimidine of the base pair."""

_FEW_SAMPLES = 4
_CHANNEL = re.compile(r"([ACGT])\[([CT]>[ACGT])\]([ACGT])")


def signature_channels() -> list[str]:
    """Names of the 96 channels in the usual order: ``A[C>A]A``, ``A[C>A]C``, and so on.

    Examples
    --------
    >>> from partwise.plotting import signature_channels
    >>> channels = signature_channels()
    >>> len(channels), channels[0], channels[-1]
    (96, 'A[C>A]A', 'T[T>G]T')
    """
    return [f"{before}[{kind}]{after}" for kind in SUBSTITUTIONS for before in "ACGT" for after in "ACGT"]


def plot_signatures(
    components: Any,
    names: Any = None,
    *,
    parts: Sequence[int] | None = None,
    titles: Sequence[str] | None = None,
    reference: Any = None,
    totals: Any = None,
    fig: FigureBase | None = None,
) -> FigureBase:
    """Draw 96 bars per part, coloured and labelled by substitution.

    Parameters
    ----------
    components
        Fitted model, or parts x 96 channels, in any order.
    names
        Names of the channels, such as ``A[C>A]A``; by default those of the model. `signature_channels` lists them in
        the usual order.
    parts
        Which parts, in which order; all by default.
    titles
        One title per part; by default its name, else ``part k``.
    reference
        A model, or a table of features x parts. The title of each part then names the most similar one.
    totals
        Counts that each part explains in some samples, for the titles: with ``activations = model.transform(X)``, pass
        ``activations.sum(axis=0)`` if parts sum to 1.
    fig
        Figure or subfigure to draw into; by default a new one.

    Returns
    -------
    Figure
        The figure. Without ``totals``, titles of a fitted model give shares of the training counts.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise.plotting import plot_signatures, signature_channels
    >>> len(plot_signatures(np.eye(2, 96), signature_channels()).axes)
    2
    """
    values = components_of(components)
    order = _usual_order(components, names, values.shape[1])
    figure, drawn = part_panels(fig, components, values.shape[0], parts, titles, (7.5, 1.25), widest=1)
    said = _said(components, values, names, reference, totals)
    for ax, k, heading in drawn:
        total = np.abs(values[k]).sum()
        _draw_channels(ax, values[k][order] / (total if total > 0 else 1.0))
        ax.set_ylabel(heading.replace("$", r"\$"), fontsize=8)
        if said[k]:
            _say(ax, said[k])
    _head(drawn[0][0])
    contexts = [f"{name[0]}{name[2]}{name[-1]}" for name in signature_channels()]
    ax.set_xticks(np.arange(96), contexts, rotation=90, fontsize=4, family="monospace")
    return figure


def _said(components: Any, values: Any, names: Any, reference: Any, totals: Any) -> list[str]:
    """What the title of each part says besides its name: its share of all counts, and the most similar reference."""
    said: list[list[str]] = [[] for _ in values]
    if totals is not None:
        given = np.asarray(totals, dtype=np.float64)
        if given.shape != (len(values),):
            raise InvalidInputError(f"totals has shape {given.shape}: give one for each of the {len(values)} parts.")
        for words, total in zip(said, given, strict=True):
            words.append(f"{total:,.0f} counts ({total / max(given.sum(), 1e-300):.0%})")
    elif isinstance(components, FactorizationEstimator) and components.n_samples_seen_:
        for words, share in zip(said, components.part_weights(), strict=True):
            words.append(f"{share:.0%} of all counts")
    if reference is not None:
        known = isinstance(components, FactorizationEstimator)
        parts = components if known else Table(values.T, None if names is None else as_labels(names))
        for words, one in zip(said, match(parts, reference, most=1), strict=True):
            words.append(f"like {one.best} ({one.cosine:.2f})")
    return [", ".join(words) for words in said]


def _say(ax: Any, words: str) -> None:
    """Text above the right end of the bars."""
    ax.text(0.995, 1.02, words.replace("$", r"\$"), transform=ax.transAxes, ha="right", va="bottom", fontsize=7)


def _draw_channels(ax: Any, shares: Any, *, percent: bool = True) -> None:
    ax.bar(np.arange(96), shares, color=np.repeat(TINTS, 16), width=0.8)
    for edge in range(16, 96, 16):
        ax.axvline(edge - 0.5, color=GREY, linewidth=0.5, linestyle=":")
    ax.set_xlim(-0.7, 95.7)
    ax.set_xticks([])
    ax.tick_params(axis="y", labelsize=6)
    ax.tick_params(axis="x", length=0)
    if percent:
        percent_axis(ax.yaxis)
    ax.spines[["top", "right"]].set_visible(False)


def _head(ax: Any) -> None:
    """The substitutions, each above its bars."""
    from matplotlib.patches import Rectangle

    across = ax.get_xaxis_transform()
    for block, (kind, colour) in enumerate(zip(SUBSTITUTIONS, TINTS, strict=True)):
        start = 16 * block - 0.4
        ax.add_artist(Rectangle((start, 1.18), 15.8, 0.16, transform=across, facecolor=colour, clip_on=False))
        ax.text(start + 7.9, 1.25, kind, transform=across, ha="center", va="center", fontsize=7, color=ink_on(colour))


def _usual_order(model: Any, names: Any, n_features: int) -> list[int]:
    """Positions of the channels, in the usual order."""
    given = model.known_features if names is None and isinstance(model, FactorizationEstimator) else names
    if given is None:
        raise InvalidInputError("the channels have no names: give names, such as signature_channels().")
    labels = feature_names(model, given, n_features)
    positions: dict[str, int] = {}
    for position, label in enumerate(labels):
        found = _CHANNEL.search(label)
        if found is None or found[0] in positions:
            fault = "is not of the form A[C>A]A" if found is None else "names a channel that is there twice"
            raise InvalidInputError(f"feature {position}, {label!r}, {fault}: signatures have 96 channels.")
        positions[found[0]] = position
    absent = [channel for channel in signature_channels() if channel not in positions]
    if absent or len(labels) != 96:
        raise InvalidInputError(f"there is no channel {(absent or ['?'])[0]!r}: signatures have 96 channels.")
    return [positions[channel] for channel in signature_channels()]


def plot_signature_fit(
    model: Any, X: Any, *, samples: Sequence[int] | None = None, names: Any = None, fig: FigureBase | None = None
) -> FigureBase:
    """Draw the mutations of samples, their reconstruction and the residual side by side.

    Parameters
    ----------
    model
        A model with 96 channels, fitted or built from given parts.
    X
        Counts as for its ``fit``.
    samples
        Which samples; by default four, evenly spaced.
    names
        Names of the channels; by default those of the model.
    fig
        Figure or subfigure to draw into; by default a new one.

    Returns
    -------
    Figure
        The figure: one row per sample, with its total and the cosine between data and reconstruction.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import PoissonNMF
    >>> from partwise.plotting import plot_signature_fit, signature_channels
    >>> model = PoissonNMF.from_components(np.full((1, 96), 1 / 96))
    >>> len(plot_signature_fit(model, np.ones((2, 96)), names=signature_channels()).axes)
    6
    """
    data = model.checked_data(X, caller="plot_signature_fit")
    rows, table = chosen_samples(model, data, samples, _FEW_SAMPLES)
    order = _usual_order(model, names, data.shape[1])
    observed = table.matrix.toarray().astype(np.float64)
    expected = model.inverse_transform(model.transform(table))
    labels = [f"sample {n}" for n in rows] if data.row_labels is None else [str(data.row_labels[n]) for n in rows]
    figure, axes = panels(fig, len(rows), 3, 4.2, 1.3)
    for n, label in enumerate(labels):
        lengths = np.sqrt(np.square(observed[n]).sum() * np.square(expected[n]).sum())
        cosine = float(observed[n] @ expected[n]) / max(float(lengths), 1e-300)
        total, off = float(observed[n].sum()), np.abs(observed[n] - expected[n])
        share = off.sum() / 2.0 / max(total, 1.0)
        told = f"{total:,.0f} counts", f"cosine {cosine:.3f}", f"{share:.1%} of the counts off"
        top = 1.05 * max(float(observed[n].max()), float(expected[n].max()), 1.0)
        wide = max(0.25 * top, 1.1 * float(off.max()))
        pieces = (observed[n], (0.0, top)), (expected[n], (0.0, top)), (observed[n] - expected[n], (-wide, wide))
        for ax, (values, ends), words in zip(axes[3 * n : 3 * n + 3], pieces, told, strict=True):
            _draw_channels(ax, values[order], percent=False)
            ax.set_ylim(*ends)
            _say(ax, words)
        axes[3 * n].set_ylabel(label.replace("$", r"\$"), fontsize=8)
    for ax, title in zip(axes[:3], ("data", "reconstruction", "residual"), strict=True):
        _head(ax)
        ax.set_title(title, fontsize=9, pad=28)
    return figure
