"""The samples of a report: one line per sample with its largest parts, and a structure plot of some of them.

Also, parts by group and over time, with confidence intervals.
"""

import warnings
from typing import Any

import numpy as np

from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats, Positions
from partwise.metrics.samples import PartShares, contributions, shares_of_groups, time_bins
from partwise.plotting.order import evenly_spaced, group_order, part_order
from partwise.reporting.diagnostics import Quality
from partwise.reporting.encoding import LONGEST, embedded_json, rounded, visible
from partwise.reporting.known import Known
from partwise.reporting.model_view import ModelView

MOST_SAMPLES = 100_000
"""Largest number of samples listed; if there are more, evenly spaced ones."""

LARGEST_PARTS = 3
"""Number of parts listed per sample."""

MOST_BARS = 600
"""Number of samples in the structure plot."""

MOST_COLOURS = 8
"""Parts with their own colour in the structure plot; the others are grey until one is selected."""

_LABEL_BYTES = 2_500_000
_SHORTEST = 4
_SEEN = 400
_PER_MILLE = 1000


def samples_section(
    view: ModelView, quality: Quality | None, groups: list[str] | None, texts: Any = None
) -> dict[str, Any] | None:
    """Label, total, share explained, largest parts and text of each sample, by columns; None without activations.

    Parameters
    ----------
    view
        The model and its data.
    quality
        How well each sample is explained; shown if it is known for all.
    groups
        The group of each sample, or None.
    texts
        The text of each sample, or None.
    """
    if view.shares is None:
        return None
    n_samples = view.shares.shape[0]
    rows = evenly_spaced(n_samples, MOST_SAMPLES)
    shares = view.shares[rows][:, view.order]
    n_largest = min(LARGEST_PARTS, shares.shape[1])
    largest = np.argsort(-shares, axis=1, kind="stable")[:, :n_largest]
    kept = np.take_along_axis(shares, largest, axis=1)
    explained = quality.by_sample if quality is not None and quality.rows.size == n_samples else None
    names = None if groups is None else sorted(set(groups))
    place = {} if names is None else {name: at for at, name in enumerate(names)}
    return {
        "n": n_samples,
        "labels": _short_together([f"sample {n}" if view.samples is None else str(view.samples[n]) for n in rows]),
        "totals": None if view.data is None else rounded(view.data.row_sums[rows], 6),
        "explained": None if explained is None else _per_mille(explained[rows]),
        "per_sample": n_largest,
        "parts": largest.ravel().tolist(),
        "shares": _per_mille(kept),
        "groups": None if names is None else _short_together(names),
        "group_of": None if groups is None else [place[groups[n]] for n in rows],
        "texts": None if texts is None else _short_together([" ".join(str(texts[n])[:_SEEN].split()) for n in rows]),
        "structure": _structure(view, groups, rows),
    }


def _short_together(labels: list[str]) -> list[str]:
    """Labels, shortened so that all of them take at most a few megabytes on the page."""
    longest = LONGEST
    cut = [visible(label, longest) for label in labels]
    while longest > _SHORTEST and len(embedded_json(cut).encode()) > _LABEL_BYTES:
        longest //= 2
        cut = [visible(label, longest) for label in labels]
    return cut


def _structure(view: ModelView, groups: list[str] | None, listed: Positions) -> dict[str, Any]:
    """Shares of evenly spaced samples, sorted by group and then by largest part; positions refer to the list."""
    assert view.shares is not None
    at, shown = evenly_spaced(listed.size, MOST_BARS), view.order
    shares = view.shares[listed[at]][:, shown]
    within = part_order(shares)
    if groups is not None:
        within = within[group_order([groups[listed[at[n]]] for n in within])]
    return {
        "samples": at[within].tolist(),
        "parts": len(shown),
        "colours": MOST_COLOURS,
        "shares": _per_mille(shares[within]),
        "others": len(shown) < view.model.n_components_,
    }


def _per_mille(values: Floats) -> list[int]:
    return [int(value) for value in np.round(_PER_MILLE * values).ravel()]


MOST_GROUPS = 40
"""Largest number of groups shown; if there are more, those with the most samples."""


def trends_section(view: ModelView, known: Known) -> dict[str, Any]:
    """Share of each shown part in each group and at each time; None if these are unknown.

    Parameters
    ----------
    view
        The model and its data.
    known
        Metadata of the samples.
    """
    if view.activations is None or view.is_signed:
        return {"groups": None, "times": None}
    made = contributions(view.model, view.activations)
    by_group = None if known.groups is None else shares_of_groups(made, known.groups)
    over_time = None
    if known.times is not None:
        try:
            over_time = shares_of_groups(made, *time_bins(known.times))
        except InvalidInputError as error:
            # A report without this plot is better than none, if the times cannot be read.
            warnings.warn(f"parts are not shown over time: {error}", UserWarning, stacklevel=3)
    return {"groups": _shown(view, by_group, MOST_GROUPS), "times": _shown(view, over_time, None)}


def _shown(view: ModelView, found: PartShares | None, most: int | None) -> dict[str, Any] | None:
    if found is None or len(found.labels) < 2:
        return None
    kept = list(range(len(found.labels)))
    if most is not None and len(kept) > most:
        kept = sorted(sorted(kept, key=lambda at: -int(found.n_samples[at]))[:most])
    return {
        "labels": [visible(found.labels[at]) for at in kept],
        "n": [int(found.n_samples[at]) for at in kept],
        "of": len(found.labels),
        **{name: [rounded(getattr(found, name)[kept, k]) for k in view.order] for name in ("shares", "low", "high")},
    }
