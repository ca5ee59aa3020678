"""What a reader must know before trusting the parts, in sentences that come first."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.contract.batch_labels import BatchPart, known_batches, parts_of_batches
from partwise.metrics import part_similarity
from partwise.reporting.model_view import ModelView
from partwise.sampling.agreement import SAME_PART, listed

R_HAT = 1.05
"""R-hat above which chains disagree so much that parts cannot be relied on."""

_ALIKE = 0.9
_MOST_PAIRS = 5


def alerts(view: ModelView, X: Any) -> list[str]:
    """Sentences about a fit that went badly; none where it went well.

    Parameters
    ----------
    view
        The model and its data.
    X
        The data as they were given, or None.
    """
    model, found = view.model, []
    chains = model.diagnostics() if model.chains() else {}
    apart = {name: one.r_hat for name, one in chains.items() if np.isfinite(one.r_hat) and one.r_hat > R_HAT}
    tentative = model.tentative_parts()
    if apart:
        worst = max(apart, key=apart.__getitem__)
        found.append(
            f"The chains disagree (R-hat {apart[worst]:.2f}, wanted: at most {R_HAT}): {_advice(view, tentative)}"
        )
    elif tentative:
        found.append(f"Not every chain found the same parts: {_advice(view, tentative)}")
    if model.status_.code in ("max_iter", "interrupted") and not apart:
        advice = "" if tentative else ": treat the parts as tentative"
        found.append(f"The fit did not converge{advice}. {model.status_.message}")
    pairs = _twins(view)
    if pairs:
        told = "; ".join(f"“{view.names[k]}” and “{view.names[other]}”" for k, other in pairs[:_MOST_PAIRS])
        more = f", and {len(pairs) - _MOST_PAIRS} more pairs" if len(pairs) > _MOST_PAIRS else ""
        found.append(f"These parts are nearly the same: {told}{more}. Fit fewer parts, or join them with merge_parts.")
    followed = _batch_parts(view, X)
    if followed:
        told = "; ".join(map(str, followed[:_MOST_PAIRS]))
        more = f", and {len(followed) - _MOST_PAIRS} more parts" if len(followed) > _MOST_PAIRS else ""
        remedy = "batch= (in the command --batch)"
        takes = remedy if model.declares.batches else f"{remedy} and a model that takes batches"
        found.append(f"{told}{more}: fit with {takes} if that is not what you look for.")
    return found


def _batch_parts(view: ModelView, X: Any) -> list[BatchPart]:
    """Parts that follow a batch of the samples, where factors of batches are not used."""
    labels = None if view.shares is None or X is None else known_batches(X, len(view.shares))
    if labels is None or view.shares is None or view.batches is not None or view.is_signed:
        return []
    return parts_of_batches(view.shares, view.names, labels)


def _advice(view: ModelView, tentative: list[int]) -> str:
    """What to do about chains that disagree, with the parts that they do not share."""
    longer = "To settle it, run longer with max_iter='auto', or fit fewer parts."
    active = view.model.active_components_.size
    if not tentative:
        return f"treat the parts as tentative. {longer}"
    if len(tentative) == active > 1:
        return f"treat all {active} parts as tentative. {longer}"
    named = listed([f"“{view.names[k]}”" for k in view.order if k in tentative])
    return (
        f"treat {len(tentative)} of {active} parts as tentative, because another chain did not find them (cosine below"
        f" {SAME_PART:g}): {named}. {longer}"
    )


def _twins(view: ModelView) -> list[tuple[int, int]]:
    active = [k for k in view.order if k in set(view.model.active_components_.tolist())]
    if view.is_signed or len(active) < 2:
        return []
    alike = np.triu(part_similarity(view.model)[np.ix_(active, active)] > _ALIKE, 1)
    return [(active[k], active[other]) for k, other in zip(*np.nonzero(alike), strict=True)]
