"""Parts in terms of samples: typical samples of each part, and how parts differ between groups and over time."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit
from scipy.stats import t as student

from partwise.core.coerce import as_table
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats, Integers

MOST_TIMES = 30
"""Largest number of distinct times; if there are more, neighbouring times are combined."""

_LEVEL = 0.95
_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2}([T ].*)?)?)?")


@dataclass(frozen=True, eq=False)
class PartShares:
    """Share of everything that each part explains, in groups of samples or over time.

    Attributes
    ----------
    labels
        The groups, or times.
    n_samples
        Number of samples in each.
    shares
        Groups x parts; rows sum to 1.
    low, high
        95% confidence intervals of the shares, from how much samples of a group differ (activations are taken as
        known). They are 0 to 1 for a group of one sample.
    """

    labels: list[str]
    n_samples: Integers
    shares: Floats
    low: Floats
    high: Floats


def contributions(model: Any, activations: Floats) -> Floats:
    """Samples x parts: share of each sample's expected total that each part explains.

    Parameters
    ----------
    model
        Fitted model.
    activations
        Activations of the samples.
    """
    return np.asarray(np.abs(activations) * np.abs(model.components_).sum(axis=1))


def representative_samples(
    model: Any, X: Any = None, *, n: int = 5, activations: Floats | None = None
) -> list[list[tuple[int, float]]]:
    """The most typical samples of each part.

    Samples with the highest share of a part come first. Shares of short samples are shrunk towards the part's overall
    share, with the weight of one sample of median size.

    Parameters
    ----------
    model
        Fitted model.
    X
        Data as for `fit`; not needed if activations are given.
    n
        Largest number of samples per part.
    activations
        Activations of the samples; by default the result of `transform`.

    Returns
    -------
    list
        For each part, pairs of a row and the share of the sample that the part explains, best first.

    Examples
    --------
    >>> from partwise import PoissonNMF
    >>> from partwise.metrics import representative_samples
    >>> model = PoissonNMF.from_components([[1, 1, 0, 0], [0, 0, 1, 1]])
    >>> best = representative_samples(model, [[9, 9, 1, 1], [0, 0, 5, 5], [8, 8, 2, 2]], n=2)
    >>> [[(row, round(share, 6)) for row, share in part] for part in best]
    [[(0, 0.9), (2, 0.8)], [(1, 1.0), (2, 0.2)]]
    """
    made = contributions(model, model.transform(X) if activations is None else activations)
    totals = made.sum(axis=1)
    filled = totals > 0
    usual = float(np.median(totals[filled])) if filled.any() else 1.0
    overall = made.sum(axis=0) / max(float(made.sum()), 1e-300)
    shrunk = (made + usual * overall) / (totals + usual)[:, None]
    shares = np.divide(made, totals[:, None], out=np.zeros_like(made), where=filled[:, None])
    found = []
    for k in range(made.shape[1]):
        first = np.argsort(-shrunk[:, k], kind="stable")[:n]
        found.append([(int(row), float(shares[row, k])) for row in first if shares[row, k] > 0])
    return found


def parts_by_group(model: Any, X: Any, groups: Sequence[Any] | None = None) -> PartShares:
    """Share of each part in each group of samples, with confidence intervals.

    Parameters
    ----------
    model
        Fitted model.
    X
        Data as for `fit`.
    groups
        The group of each sample; by default the metadata ``group`` of X.

    Examples
    --------
    >>> from partwise import PoissonNMF
    >>> from partwise.metrics import parts_by_group
    >>> model = PoissonNMF.from_components([[1, 1, 0, 0], [0, 0, 1, 1]])
    >>> found = parts_by_group(model, [[9, 9, 1, 1], [0, 0, 5, 5], [8, 8, 2, 2]], ["old", "new", "old"])
    >>> found.labels, found.shares.round(6).tolist()
    (['new', 'old'], [[0.0, 1.0], [0.85, 0.15]])
    """
    return shares_of_groups(contributions(model, model.transform(X)), _known(X, groups, "group"))


def parts_over_time(model: Any, X: Any, times: Sequence[Any] | None = None) -> PartShares:
    """Share of each part over time, with confidence intervals.

    Parameters
    ----------
    model
        Fitted model.
    X
        Data as for `fit`.
    times
        The time of each sample: numbers, such as years, or ISO dates; by default the metadata ``time`` of X. More than
        30 different times are combined by year, month or equal steps.

    Examples
    --------
    >>> from partwise import PoissonNMF
    >>> from partwise.metrics import parts_over_time
    >>> model = PoissonNMF.from_components([[1, 1, 0, 0], [0, 0, 1, 1]])
    >>> found = parts_over_time(model, [[9, 9, 1, 1], [0, 0, 5, 5], [8, 8, 2, 2]], [2001, 1999, 2001])
    >>> found.labels, found.shares.round(6).tolist()
    (['1999', '2001'], [[0.0, 1.0], [0.85, 0.15]])
    """
    made = contributions(model, model.transform(X))
    labels, order = time_bins(_known(X, times, "time"))
    return shares_of_groups(made, labels, order)


def _known(X: Any, given: Sequence[Any] | None, name: str) -> list[str]:
    table = as_table(X)
    if given is None and name not in table.metadata:
        raise InvalidInputError(f"X has no metadata {name!r}: give {name}s=, or count texts with {name}_column=.")
    values = [str(value) for value in (table.metadata[name] if given is None else given)]
    if len(values) != table.shape[0]:
        raise InvalidInputError(f"there are {len(values)} {name}s for {table.shape[0]} samples: give one for each.")
    return values


def shares_of_groups(made: Floats, groups: Sequence[str], order: Sequence[str] | None = None) -> PartShares:
    """Share of each part in each group: ratio of sums, with jackknife intervals on the logit scale.

    Parameters
    ----------
    made
        Samples x parts: what each part explains of each sample.
    groups
        The group of each sample; an empty text means no group.
    order
        The groups in order; by default sorted by name.
    """
    labels = sorted(set(groups) - {""}) if order is None else list(order)
    size = (len(labels), made.shape[1])
    shares, low, high = np.zeros(size), np.zeros(size), np.ones(size)
    counts = np.zeros(len(labels), dtype=np.int64)
    names = np.asarray(groups, dtype=object)
    for at, label in enumerate(labels):
        rows = made[names == label]
        counts[at] = len(rows)
        totals = rows.sum(axis=1)
        total = max(float(totals.sum()), 1e-300)
        share = rows.sum(axis=0) / total
        shares[at] = share
        if len(rows) > 1:
            # Add half a token of each kind: a part that only one sample has would have share 0 when that sample is left
            # out.
            sums = rows.sum(axis=0)
            others = logit((sums - rows + 0.5) / (total - totals + 1.0)[:, None])
            reach = student.ppf((1 + _LEVEL) / 2, len(rows) - 1) * np.sqrt((len(rows) - 1) * others.var(axis=0))
            centre = logit((sums + 0.5) / (total + 1.0))
            low[at], high[at] = np.minimum(expit(centre - reach), share), np.maximum(expit(centre + reach), share)
    return PartShares(labels, counts, shares, low, high)


def time_bins(times: Sequence[str]) -> tuple[list[str], list[str]]:
    """A time label for each sample, and the labels in order.

    Parameters
    ----------
    times
        Numbers or ISO dates as text; an empty text is unknown and stays empty.

    Examples
    --------
    >>> time_bins(["2001", "1999", ""])
    (['2001', '1999', ''], ['1999', '2001'])
    """
    known = [one.strip() for one in times]
    filled = [one for one in known if one]
    try:
        numbers = {one: float(one) for one in filled}
    except ValueError:
        return _dates(known, filled)
    if not all(np.isfinite(list(numbers.values()))):
        raise InvalidInputError("times must be finite numbers or ISO dates: correct them.")
    different = sorted(set(filled), key=numbers.__getitem__)
    if len(different) <= MOST_TIMES:
        return known, different
    edges = np.linspace(numbers[different[0]], numbers[different[-1]], MOST_TIMES // 2 + 1)
    labels = [f"{low:g}\u2013{high:g}" for low, high in itertools.pairwise(edges)]
    at = {one: min(int(np.searchsorted(edges, numbers[one], "right")) - 1, len(labels) - 1) for one in different}
    used = sorted({at[one] for one in filled})
    return [labels[at[one]] if one else "" for one in known], [labels[position] for position in used]


def _dates(known: list[str], filled: list[str]) -> tuple[list[str], list[str]]:
    """ISO dates by day, month or year: the finest step that gives few enough labels."""
    for one in filled:
        if not _DATE.fullmatch(one):
            raise InvalidInputError(f"the time {one[:40]!r} is neither a number nor an ISO date such as 2024-05-31.")
    for length in (10, 7, 4):
        different = sorted({one[:length] for one in filled})
        if len(different) <= MOST_TIMES or length == 4:
            break
    return [one[:length] for one in known], different
