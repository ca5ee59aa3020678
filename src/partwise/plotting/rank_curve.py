"""Scores against the number of parts, by model."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.plotting.features import shortened
from partwise.plotting.figures import COLOURS, GREY, Axes, finish_axes, given_or_new_axes

_MARKERS = "osD^vP*X"
_DODGE = 0.12
_LOG_DODGE = 0.015
# From this many parts on, the axis is logarithmic: steps of one part would be too narrow.
_MANY = 12
_TICK_RATIO = 1.22
_RANKS = ("rank", "n_components", "candidates")
_MEANS = ("mean", "score", "scores")
_ERRORS = ("std_error", "std_errors")


def plot_rank_selection(
    scores: Any,
    *,
    chosen: tuple[str, int] | int | None = None,
    ylabel: str = "score (higher is better)",
    title: str = "",
    ax: Any = None,
) -> Axes:
    """Plot mean scores and standard errors against the number of parts, one line per model.

    Parameters
    ----------
    scores
        The result of `partwise.selection.compare`. Or a table by columns (mapping or data frame), or an object with the
        columns as attributes, such as the result of `partwise.selection.select_rank`. Its columns are ``rank`` (or
        ``n_components``, ``candidates``), ``mean`` (or ``score``, ``scores``), and optionally ``std_error`` (or
        ``std_errors``) and ``model``.
    chosen
        What to mark with a ring: a number of parts, or a model and number. By default the choice of a comparison, else
        the highest mean.
    ylabel, title
        Label of the vertical axis, and title.
    ax
        Axes to draw into; by default those of a new figure, which is ``ax.figure``.

    Returns
    -------
    Axes
        The axes. Bars are two standard errors long on each side; for a comparison, of the paired difference to the best
        candidate.

    Examples
    --------
    >>> from partwise.plotting import plot_rank_selection
    >>> table = {"rank": [1, 2, 3], "mean": [-3.1, -2.5, -2.6], "std_error": [0.1, 0.1, 0.1]}
    >>> plot_rank_selection(table).get_xlabel()
    'parts'
    """
    if callable(getattr(scores, "table", None)):
        found = [row for row in scores.table() if row.rank]  # popularity, the baseline for lists, has no parts
        if chosen is None:  # a choice that was not tried has no score
            tried = {(row.model, row.rank) for row in found}
            chosen = scores.choice if tuple(scores.choice) in tried else scores.recommended
        scores = {name: [getattr(row, name) for row in found] for name in ("model", "rank", "score")}
        scores["std_error"] = [row.behind_std_error for row in found]
    ranks, means, errors, models = _columns(scores)
    ax = given_or_new_axes(ax, 5.0, 3.4)
    names = list(dict.fromkeys(models))
    # Side by side, so that bars of different models do not hide each other.
    offsets = np.array([names.index(model) - 0.5 * (len(names) - 1) for model in models])
    places = ranks * np.exp(_LOG_DODGE * offsets) if ranks.max() > _MANY else ranks + _DODGE * offsets
    for position, name in enumerate(names):
        rows = np.flatnonzero([model == name for model in models])
        rows = rows[np.argsort(ranks[rows], kind="stable")]
        look: dict[str, Any] = {"color": COLOURS[position % len(COLOURS)], "marker": _MARKERS[position % len(_MARKERS)]}
        look |= {"markersize": 5, "linewidth": 1.3, "capsize": 3, "label": shortened(name) or None}
        ax.errorbar(places[rows], means[rows], yerr=2.0 * errors[rows], **look)
    _show_the_contest(ax, means, errors, models)
    row = _marked(ranks, means, models, chosen)
    ax.plot(places[row], means[row], "o", markersize=14, mfc="none", mec=GREY, mew=1.5)
    if ranks.max() > _MANY:
        ax.set_xscale("log")
    ticks: list[int] = []
    for rank in np.unique(ranks).astype(int).tolist():  # if there are many, only those that do not touch
        if ranks.max() <= _MANY or not ticks or rank >= _TICK_RATIO * ticks[-1]:
            ticks.append(rank)
    ax.set_xticks(ticks, [str(tick) for tick in ticks], fontsize=8 if len(ticks) > _MANY else None)
    ax.set_xticks([], minor=True)
    return finish_axes(ax, "parts", ylabel, title=title, legend_size=8 if any(names) else None)


def _show_the_contest(ax: Any, means: Floats, errors: Floats, models: list[str]) -> None:
    """End the axis below the better half of the points and each model's best: few parts may be far worse."""
    best = [means[[model == name for model in models]].max() for name in dict.fromkeys(models)]
    shown = means >= min(np.median(means), *best)
    low, high = np.min((means - 2 * errors)[shown]), np.max((means + 2 * errors)[shown])
    if np.min(means) < low - (high - low):
        margin = 0.08 * (high - low) or 1.0
        ax.set_ylim(low - margin, high + margin)


def _marked(ranks: Floats, means: Floats, models: list[str], chosen: Any) -> int:
    """The row to mark with a ring."""
    if chosen is None:
        return int(np.argmax(means))
    model, rank = chosen if isinstance(chosen, tuple) else (None, chosen)
    found = [n for n in range(len(models)) if ranks[n] == rank and model in (None, models[n])]
    if not found:
        raise InvalidInputError(f"chosen={chosen!r} is not among the scores.")
    return max(found, key=lambda n: means[n])


def _columns(scores: Any) -> tuple[Floats, Floats, Floats, list[str]]:
    ranks, means, errors = (_numbers(scores, *names) for names in (_RANKS, _MEANS, _ERRORS))
    if ranks is None or means is None:
        raise InvalidInputError(f"scores need a column {(_RANKS if ranks is None else _MEANS)[0]!r}.")
    errors = np.zeros(len(ranks)) if errors is None else np.nan_to_num(errors)
    given = _column(scores, "model")
    models = [""] * len(ranks) if given is None else [str(model) for model in given]
    if not len(ranks) == len(means) == len(errors) == len(models) or not len(ranks):
        raise InvalidInputError("the columns of scores must have one entry for each fit, at least one.")
    if not np.all(np.isfinite(means)):
        raise InvalidInputError(f"scores have a mean that is not a number in row {int(np.argmin(np.isfinite(means)))}.")
    return ranks, means, errors, models


def _numbers(scores: Any, *names: str) -> Floats | None:
    column = _column(scores, *names)
    return None if column is None else np.asarray(column, dtype=np.float64)


def _column(scores: Any, *names: str) -> Any:
    table = isinstance(scores, Mapping) or hasattr(scores, "columns")
    for name in names:
        if name in scores if table else hasattr(scores, name):
            return scores[name] if table else getattr(scores, name)
    return None
