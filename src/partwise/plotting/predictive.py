"""Posterior predictive checks: compare data drawn from a fitted model with the data that it was fitted to.

Figures of these checks show observed values against what the model would draw.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from partwise.core.keys import RandomState, key_from
from partwise.errors import InvalidInputError
from partwise.io.table import Table, as_labels
from partwise.kernels.arrays import Floats
from partwise.metrics.dispersion import Dispersion
from partwise.plotting.figures import BLUE, GREY, ORANGE, Axes, FigureBase, finish_axes, given_or_new_axes, panels
from partwise.plotting.order import checked_positions, evenly_spaced

_MOST_CELLS = 1_000_000
_MOST_ROWS = 1000
_FEWEST_ROWS = 20


@dataclass(frozen=True, eq=False)
class Check:
    """One statistic for each row or feature, of the data and of data drawn from the model.

    Attributes
    ----------
    observed
        The statistic of the data.
    low, middle, high
        5%, 50% and 95% quantiles of the statistic over the draws.
    coverage
        Share of the observed values between ``low`` and ``high``: about 0.9 if the model is right, more if it was
        fitted to these very numbers.
    p_value
        Share of the draws whose mean over all rows or features is at least that of the data. Near 0 or 1, the model
        cannot make such data.
    """

    observed: Floats
    low: Floats
    middle: Floats
    high: Floats
    p_value: float

    @property
    def coverage(self) -> float:
        """Share of the observed values within the interval of the draws."""
        return float(np.mean((self.observed >= self.low) & (self.observed <= self.high)))


@dataclass(frozen=True, eq=False)
class PredictiveChecks:
    """The result of `predictive_checks`.

    Attributes
    ----------
    row_sums
        Sum of each checked row; overall, the mean of these sums.
    zeros
        Share of zeros of each feature; overall, the mean of these shares.
    dispersion
        Variance divided by mean for each feature that occurs; overall, the mean of these ratios.
    features
        Positions of the features of ``dispersion``.
    n_draws, n_rows
        Number of data sets drawn, and of rows in each.
    plug_in
        Whether activations were fixed at their point estimates, so that intervals are too narrow.
    noise
        For counts: whether they vary around their expected values as Poisson counts do; None for bits.
    """

    row_sums: Check
    zeros: Check
    dispersion: Check
    features: Any
    n_draws: int
    n_rows: int
    plug_in: bool
    noise: Dispersion | None = None


def predictive_checks(
    model: Any, X: Any, *, n_draws: int = 40, max_rows: int | None = None, random_state: RandomState = 0
) -> PredictiveChecks:
    """Draw data from a fitted model, and compare their sums, zeros and variances with those of the data.

    Rows keep their activations (drawn from their posterior if the model has one). So the question is: if these samples
    were measured again, would they look like this?

    Parameters
    ----------
    model
        Any fitted estimator.
    X
        Counts or bits as for its ``fit``; whole numbers. Missing cells are missing in the drawn data, too.
    n_draws
        Number of data sets to draw.
    max_rows
        Largest number of rows to use, evenly spaced; by default 1,000, or fewer if a draw would exceed a million cells.
    random_state
        Seed: int, Generator or None.

    Returns
    -------
    PredictiveChecks
        Row sums, zeros and dispersion, observed and drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import PoissonNMF
    >>> from partwise.plotting import predictive_checks
    >>> X = np.random.default_rng(0).poisson(3.0, size=(60, 8))
    >>> checks = predictive_checks(PoissonNMF(1, random_state=0).fit(X), X)
    >>> 0.7 < checks.dispersion.coverage <= 1.0
    True
    """
    if n_draws < 2:
        raise InvalidInputError(f"n_draws must be at least 2, got {n_draws}.")
    data = model.checked_data(X, caller="predictive_checks")
    if not data.is_integer and not np.array_equal(data.values, np.floor(data.values)):
        raise InvalidInputError("predictive checks draw whole numbers, but X holds others: pass the counts themselves.")
    rows = checked_rows(data.shape, max_rows)
    table = sample_table(data, rows, model)
    observed, seen = table.matrix.toarray().astype(np.float64), ~data.missing_matrix()[rows].toarray()
    key = key_from(random_state)
    found = model.activation_draws(table, n_draws, int(key.seed))
    activations = model.transform(table)[None] if found is None else found
    drawn = []
    for draw in range(n_draws):
        expected, generator = model.expected(activations[draw % len(activations)]), key.at(draw).for_stage("predictive")
        drawn.append(_statistics(model.sample_cells(expected, generator.generator()), seen))
    ours = _statistics(observed, seen)
    checks = [_check(mine, np.stack(theirs)) for mine, theirs in zip(ours, zip(*drawn, strict=True), strict=True)]
    occurring = np.flatnonzero(~np.isnan(checks[2].observed))
    from partwise.selection.noise import dispersion_test  # imports all of selection, which other figures do not need

    noise = None if model.declares.data == "bits" else dispersion_test(model, X)
    facts = occurring, n_draws, int(rows.size), found is None, noise
    return PredictiveChecks(checks[0], checks[1], _only(checks[2], occurring), *facts)


def checked_rows(shape: tuple[int, int], max_rows: int | None) -> Any:
    """Evenly spaced rows, few enough for a small dense copy."""
    most = int(np.clip(_MOST_CELLS // shape[1], _FEWEST_ROWS, _MOST_ROWS)) if max_rows is None else max_rows
    if most < 1:
        raise InvalidInputError(f"max_rows must be at least 1, got {max_rows}.")
    return evenly_spaced(shape[0], most)


def sample_table(data: Any, rows: Any, model: Any) -> Table:
    """Some rows of checked data as a table that the model accepts without a warning."""
    names = model.known_features
    missing = data.missing_matrix()[rows] if data.n_missing else None
    return Table(data.to_scipy()[rows], None, None if names is None else as_labels(names), missing)


def chosen_samples(model: Any, data: Any, samples: Any, most: int | None) -> tuple[Any, Table]:
    """Positions of the samples to draw, by default evenly spaced ones, and their data with the names of the model."""
    rows = checked_rows(data.shape, most) if samples is None else checked_positions(samples, data.shape[0], "samples")
    return rows, sample_table(data, rows, model)


def _statistics(values: Floats, seen: Any) -> tuple[Floats, Floats, Floats]:
    """Row sums, shares of zeros by feature, and variance over mean by feature (NaN where the mean is 0)."""
    kept = np.where(seen, values, 0.0)
    counts = np.maximum(seen.sum(axis=0), 1)
    means = kept.sum(axis=0) / counts
    variances = np.where(seen, (values - means) ** 2, 0.0).sum(axis=0) / counts
    zeros = ((values == 0) & seen).sum(axis=0) / counts
    dispersion = np.divide(variances, means, out=np.full(means.shape, np.nan), where=means > 0)
    return kept.sum(axis=1), zeros, dispersion


def _check(observed: Floats, drawn: Floats) -> Check:
    """Dispersion is 0 in a draw without the feature."""
    filled = np.nan_to_num(drawn)
    low, middle, high = np.quantile(filled, [0.05, 0.5, 0.95], axis=0)
    p_value = float(np.mean(filled.mean(axis=1) >= np.nan_to_num(observed).mean()))
    return Check(observed, low, middle, high, p_value)


def _only(check: Check, kept: Any) -> Check:
    return Check(check.observed[kept], check.low[kept], check.middle[kept], check.high[kept], check.p_value)


STATISTICS = {"row_sums": "sum of a row", "zeros": "zeros of a feature", "dispersion": "variance / mean of a feature"}
"""What can be checked, in words."""

_MOST_POINTS = 1500
_WIDE = 30.0


def plot_predictive_check(
    checks: PredictiveChecks, statistic: Literal["row_sums", "zeros", "dispersion"], *, ax: Any = None
) -> Axes:
    """Compare one statistic of the data with draws from the model, one bar per row or feature.

    Parameters
    ----------
    checks
        The result of `predictive_checks`.
    statistic
        ``"row_sums"``, ``"zeros"`` or ``"dispersion"``.
    ax
        Axes to draw into; by default those of a new figure, which is ``ax.figure``.

    Returns
    -------
    Axes
        The axes. Bars hold nine of ten draws. The dotted line marks equal drawn and observed values: blue bars touch
        it, orange crosses do not. If there are many, only some are drawn, evenly spaced.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import PoissonNMF
    >>> from partwise.plotting import plot_predictive_check, predictive_checks
    >>> X = np.random.default_rng(0).poisson(3.0, size=(60, 8))
    >>> checks = predictive_checks(PoissonNMF(1, random_state=0).fit(X), X)
    >>> plot_predictive_check(checks, "zeros").get_xlabel()
    'observed'
    """
    if statistic not in STATISTICS:
        raise InvalidInputError(f"statistic={statistic!r} is unknown; give {', '.join(STATISTICS)}.")
    check: Check = getattr(checks, statistic)
    ax = given_or_new_axes(ax, 3.2, 3.2)
    rows = np.argsort(check.observed, kind="stable")
    rows = rows[evenly_spaced(rows.size, _MOST_POINTS)]
    observed, low, high = check.observed[rows], check.low[rows], check.high[rows]
    inside = (observed >= low) & (observed <= high)
    for kept, colour, marker in ((inside, BLUE, "."), (~inside, ORANGE, "x")):
        ax.vlines(observed[kept], low[kept], high[kept], color=colour, linewidth=0.8, alpha=0.35)
        ax.plot(observed[kept], check.middle[rows][kept], marker, color=colour, markersize=3.5)
    _frame(ax, np.concatenate([observed, low, high]), logarithmic=statistic != "zeros")
    title = f"{STATISTICS[statistic]}\n{100 * check.coverage:.0f}% inside their bars (expected: 90%)"
    return finish_axes(ax, "observed", "drawn from the model", title=title, title_size=8, label_size=8, tick_size=7)


def plot_predictive_checks(model: Any, X: Any = None, *, fig: FigureBase | None = None, **options: Any) -> FigureBase:
    """Check whether the model could have made the data: row sums, zeros, and variance over mean.

    Parameters
    ----------
    model
        Fitted model, or the result of `predictive_checks`.
    X
        The data, if a model is given.
    fig
        Figure or subfigure to draw into; by default a new one.
    options
        Arguments of `predictive_checks`: ``n_draws``, ``max_rows``, ``random_state``.

    Returns
    -------
    Figure
        The figure, with three panels side by side.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import PoissonNMF
    >>> from partwise.plotting import plot_predictive_checks
    >>> X = np.random.default_rng(0).poisson(3.0, size=(60, 8))
    >>> len(plot_predictive_checks(PoissonNMF(1, random_state=0).fit(X), X).axes)
    3
    """
    if isinstance(model, PredictiveChecks):
        checks = model
    elif X is None:
        raise InvalidInputError("X is missing: predictive checks compare a model with data.")
    else:
        checks = predictive_checks(model, X, **options)
    figure, axes = panels(fig, 1, 3, 2.7, 2.9)
    plot_predictive_check(checks, "row_sums", ax=axes[0])
    plot_predictive_check(checks, "zeros", ax=axes[1])
    plot_predictive_check(checks, "dispersion", ax=axes[2])
    return figure


def _frame(ax: Any, values: Any, *, logarithmic: bool) -> None:
    """The same scale on both axes, and the line of equal drawn and observed values."""
    if not values.size:
        return
    positive = values[values > 0]
    least, most = float(values.min()), float(values.max())
    if logarithmic and positive.size and most > _WIDE * float(positive.min()):
        least = float(positive.min())
        ax.set(xscale="log", yscale="log")
        limits = (least / 1.3, most * 1.3)
    else:
        margin = 0.05 * (most - least or 1.0)
        limits = (least - margin, most + margin)
    ax.plot(limits, limits, color=GREY, linewidth=0.8, linestyle=":")
    ax.set(xlim=limits, ylim=limits)
