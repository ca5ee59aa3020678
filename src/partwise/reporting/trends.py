"""Parts by group and over time, with intervals, as a report shows them."""

from __future__ import annotations

import warnings
from typing import Any

from partwise.errors import InvalidInputError
from partwise.metrics.samples import PartShares, contributions, shares_of_groups, time_bins
from partwise.reporting.encoding import rounded, visible
from partwise.reporting.known import Known
from partwise.reporting.model_view import ModelView

MOST_GROUPS = 40
"""Groups that are shown; of more, those with the most samples."""


def trends_section(view: ModelView, known: Known) -> dict[str, Any]:
    """Share of each shown part in each group and at each time; None where these are not known.

    Parameters
    ----------
    view
        The model and its data.
    known
        What is known about the samples.
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
            # The report is worth having without a picture of times that are no times.
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
