"""A comparison in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from partwise.selection.standings import Difference

if TYPE_CHECKING:
    from partwise.selection.comparison import Comparison

_RULES = {
    "best": "it predicts held-out {unit}s best",
    "simple": "it has the fewest parts of the candidates that predict held-out {unit}s as well as the best",
    "stable": "it has the most parts that restarts agree on, of the candidates that predict held-out {unit}s well",
}


def sentence(found: Comparison) -> str:
    """The recommendation and its confidence, or the cost of overriding it.

    Parameters
    ----------
    found
        The comparison.
    """
    if found.choice != found.recommended:
        return _overruled(found)
    choice, best, unit = found.choice, found.best, found.unit if found.metric is None else "feature"
    score, error = found.standings.score(choice)
    if choice == best:
        text = f"Take {choice}: {_RULES['best'].format(unit=unit)}, at {score:.4f} ± {error:.4f} {found.scale}."
    else:
        gap = found.difference(best, choice)
        text = f"Take {choice}: {_RULES[found.rule].format(unit=unit)} ({best} is ahead by {gap.value:.4f} ±"
        text += f" {gap.std_error:.4f} {found.scale})."
    rivals = found.indistinguishable()
    if rivals:
        *others, last = map(str, rivals)
        text += f" {', '.join(others)} and {last}" if others else f" {last}"
        text += " cannot be told apart from it."
    elif len(found.models) > 1:
        text += " Every other model is worse by more than 2 standard errors."
    return f"{text} {_confidence(found)}"


def notes(found: Comparison) -> list[str]:
    """Other remarks on the choice.

    Parameters
    ----------
    found
        The comparison.
    """
    parts = (_popularity_note, _noise_note, _end_note, _signed_note, _new_rows_note, _unfinished_note, _stopped_note)
    return [note for note in (part(found) for part in parts) if note]


def _popularity_note(found: Comparison) -> str:
    """How the lists of the choice compare with lists by popularity."""
    if found.metric is None or found.choice not in found.standings.rows:
        return ""
    gap = found.ahead_of_popularity(found.choice)
    told = f"{gap.value:+.4f} ± {gap.std_error:.4f} {found.scale} compared with lists of the most popular features"
    return f"Lists of {found.choice}: {told}{'' if gap.significant and gap.value > 0 else ': no gain is shown'}."


def _noise_note(found: Comparison) -> str:
    """The noise that was found, and how counts were held out because of it."""
    if found.noise is None:
        return ""
    if found.noise.poisson:
        return f"{found.noise}. Tokens were held out at random."
    told = f"{found.noise}. Batches, or parts of a few samples each, can look like such noise."
    if found.hidden_cells:
        return f"{told} So whole cells were held out: their noise is independent of that of other cells."
    return f"{told} So tokens were held out by beta-binomial thinning, which allows for such noise."


def _confidence(found: Comparison) -> str:
    """The confidence: what other rows and restarts would have recommended."""
    rank, both = round(100 * found.rank_share), round(100 * found.model_share)
    parts = f"{found.choice.rank} part{'' if found.choice.rank == 1 else 's'}"
    chosen = f"this model and {parts}" if both == rank else f"{parts}, and {both} of these also chose this model"
    counted = f"of 100 bootstrap resamples of rows and restarts, {rank} chose {chosen}"
    if found.stopped:
        return f"Provisional: {counted}."
    level, _, only = found.confidence.partition(" in ")
    return f"{level.capitalize()} confidence{f' in {only}, less in the model' if only else ''}: {counted}."


def _new_rows_note(found: Comparison) -> str:
    """A remark if new rows prefer another model than held-out tokens do."""
    other = _preferred_by_new_rows(found)
    if other is None:
        return ""
    name, gap = other
    return (
        f"New rows disagree: {name} predicts rows that it was not fitted to better than {found.choice.model}, by"
        f" {gap.value:.4f} ± {gap.std_error:.4f} {found.scale}. Prefer it if you apply the model to new rows."
    )


def _preferred_by_new_rows(found: Comparison) -> tuple[str, Difference] | None:
    """The model that predicts new rows best, and by how much; None if the choice is within 2 standard errors."""
    own, preferred = found.new_rows.get(found.choice.model), None
    for name, new in found.new_rows.items():
        if own is None or not own.rows.size or new.rows.size != own.rows.size or name not in found.models:
            continue
        gaps = (new.rows - own.rows) * (own.completion / float(own.rows.sum()))
        gap = Difference(float(gaps.sum()), float(np.sqrt(gaps.size) * gaps.std(ddof=1)) if gaps.size > 1 else np.inf)
        if gap.value > 0 and gap.significant and (preferred is None or gap.value > preferred[1].value):
            preferred = name, gap
    return preferred


def _stopped_note(found: Comparison) -> str:
    """A remark if the search ended early."""
    if not found.stopped:
        return ""
    why = "it was interrupted" if found.stopped == "interrupted" else "the budget was used up"
    return f"This is the best answer after {found.n_fits} fits: {why} before the search was done."


def _unfinished_note(found: Comparison) -> str:
    """A remark if fits of the choice did not converge: fits of a comparison are short."""
    fits = [fit for task, fit in found.fits.items() if task[:2] == found.choice]
    unfinished = sum(fit.status != "converged" for fit in fits)
    if not unfinished:
        return ""
    which = f"{unfinished} of {len(fits)} brief fits" if len(fits) > 1 else "The brief fit"
    return f"{which} of {found.choice} had not converged (comparisons fit briefly): check the status of your final fit."


def _end_note(found: Comparison) -> str:
    """A remark if more, or fewer, parts than were tried may do better."""
    if not found.untried:
        return ""
    choice = found.choice
    if choice.rank == found.untried[0]:
        told, hope = "most", "more may predict better"
    else:
        told, hope = "fewest", "fewer may do as well"
    return f"{choice.rank} is the {told} parts that {choice.model} was tried with, and {hope}."


def _signed_note(found: Comparison) -> str:
    """The next best model with parts, if the choice has signed directions."""
    if not found.signed:
        return ""
    note = f"What {found.choice.model} finds has signs: these are directions in which samples differ, not parts"
    best = found.instead
    if best is None or found.choice not in found.standings.rows:
        return f"{note}."
    gap = found.difference(found.choice, best)
    behind = f"behind by {gap.value:.4f} ± {gap.std_error:.4f} {found.scale}"
    return f"{note}; of models that have parts, {best} predicts best, {behind}."


def _overruled(found: Comparison) -> str:
    choice, recommended = found.choice, found.recommended
    if choice not in found.standings.rows:
        return f"You took {choice}, which was not tried, instead of {recommended}."
    gap = found.difference(recommended, choice)
    how = "worse" if gap.value > 0 else "better"
    told = "" if gap.significant else ", which is within 2 standard errors"
    return (
        f"You took {choice} instead of {recommended}: it predicts held-out {found.unit}s {how} by"
        f" {abs(gap.value):.4f} ± {gap.std_error:.4f} {found.scale}{told}."
    )
