"""A comparison in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from partwise.selection.comparison import Comparison

_SURE, _FAIRLY_SURE = 0.9, 0.6


def sentence(found: Comparison) -> str:
    """The recommendation and how sure it is, or what overruling it costs.

    Parameters
    ----------
    found
        The comparison.
    """
    if found.choice != found.recommended:
        return _overruled(found)
    choice, best = found.choice, found.best
    score, error = found.standings.score(choice)
    text = f"Take {choice}: it predicts held-out {found.unit}s "
    if choice == best:
        text += f"best, at {score:.4f} ± {error:.4f} nats a {found.unit}"
    else:
        gap = found.difference(best, choice)
        text += f"as well as the best ({best}, better by {gap.value:.4f} ± {gap.std_error:.4f} nats a {found.unit})"
        text += " with less"
    rivals = found.indistinguishable()
    if rivals:
        text += f"; {_listed([str(rival) for rival in rivals])} cannot be told from it"
    elif len(found.models) > 1:
        text += "; every other model is worse by more than 2 standard errors"
    return f"{text}; {_certainty(found)}."


def notes(found: Comparison) -> list[str]:
    """What to know about the choice besides.

    Parameters
    ----------
    found
        The comparison.
    """
    return [note for note in (_end_note(found), _signed_note(found), _unfinished_note(found)) if note]


def _unfinished_note(found: Comparison) -> str:
    """That fits of the choice had not converged: those of a comparison are brief."""
    fits = [fit for task, fit in found.fits.items() if task[:2] == found.choice]
    unfinished = sum(fit.status != "converged" for fit in fits)
    if not unfinished:
        return ""
    which = f"{unfinished} of {len(fits)} brief fits" if len(fits) > 1 else "The brief fit"
    return f"{which} of {found.choice} had not converged: look at the status of the model that you fit in the end."


def _end_note(found: Comparison) -> str:
    """That more, or fewer, parts than were tried may do better."""
    if not found.untried:
        return ""
    choice = found.choice
    if choice.rank == found.untried[0]:
        told, hope = "most", "more may predict better"
    else:
        told, hope = "fewest", "fewer may do as well"
    return f"{choice.rank} is the {told} parts that {choice.model} was tried with, and {hope}."


def _signed_note(found: Comparison) -> str:
    """Which model with parts comes next, where the choice has directions with signs."""
    if not found.signed:
        return ""
    note = (
        f"The components of {found.choice.model} have signs: they are directions in which samples differ, and no parts"
    )
    best = found.instead
    if best is None or found.choice not in found.standings.rows:
        return f"{note}."
    gap = found.difference(found.choice, best)
    behind = f"behind by {gap.value:.4f} ± {gap.std_error:.4f} nats a {found.unit}"
    return f"{note}; of models that have parts, {best} predicts best, {behind}."


def _certainty(found: Comparison) -> str:
    """How sure it is: what resampled rows would have given."""
    this = "of what was tried, this" if found.untried else "this"
    number = f"{round(100 * found.rank_share)} of 100 resamplings of the rows agree on the number of parts"
    both = f"{round(100 * found.model_share)} on the model as well"
    if found.rank_share >= _SURE and found.model_share >= _SURE:
        return f"{this} is sure ({number}, {both})"
    if found.rank_share >= _SURE:
        return f"the number of parts is sure and the model less so ({number}, {both})"
    if found.rank_share >= _FAIRLY_SURE:
        return f"{this} is fairly sure ({number}, {both})"
    return f"{this} is not sure ({number}, {both})"


def _overruled(found: Comparison) -> str:
    choice, recommended = found.choice, found.recommended
    if choice not in found.standings.rows:
        return f"You took {choice}, which was not tried, instead of {recommended}."
    gap = found.difference(recommended, choice)
    how = "worse" if gap.value > 0 else "better"
    told = "" if gap.significant else ", which 2 standard errors do not tell apart"
    return (
        f"You took {choice} instead of {recommended}: it predicts held-out {found.unit}s {how} by"
        f" {abs(gap.value):.4f} ± {gap.std_error:.4f} nats a {found.unit}{told}."
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
