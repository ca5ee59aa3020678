"""Which models take part in a comparison: those that registered models declare, or those that a caller names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from partwise._registry import estimator_classes, is_registered
from partwise.contract.declaration import Candidate
from partwise.errors import InvalidInputError

# Set by the comparison itself, or without meaning in it.
_NOT_SETTINGS = {"n_components", "random_state", "n_jobs", "engine", "progress", "callbacks", "checkpoint", "resume"}


def candidates_of(kind: str) -> tuple[Candidate, ...]:
    """All candidates for a kind of data, the simplest first.

    Parameters
    ----------
    kind
        ``"counts"`` or ``"bits"``.
    """
    found = [candidate for model in estimator_classes() for candidate in model.candidates(kind)]
    return tuple(sorted(found, key=lambda candidate: candidate.complexity))


def model_names(kind: str) -> list[str]:
    """Names of the models that are compared by default.

    Parameters
    ----------
    kind
        ``"counts"`` or ``"bits"``.

    Examples
    --------
    >>> model_names("bits")
    ['beta-dir', 'dir-beta', 'dir-dir', 'logistic-pca', 'poisson']
    """
    return [candidate.name for candidate in candidates_of(kind)]


def chosen_candidates(models: Any, kind: str, *, missing: bool = False) -> tuple[Candidate, ...]:
    """The candidates that ``models`` stands for: names, estimators, or a mapping of names to estimators; None = all.

    Parameters
    ----------
    models
        As `partwise.selection.compare` takes it.
    kind
        ``"counts"`` or ``"bits"``.
    missing
        Whether cells are missing; models that need settings for that get them.
    """
    known = {candidate.name: candidate for candidate in candidates_of(kind)}
    if models is None:
        found = list(known.values())
    elif isinstance(models, Mapping):
        for name in map(str, models):
            if not name.isprintable() or "/" in name or "\\" in name:
                raise InvalidInputError(f"models: {name!r} cannot be a part of a file's name: give it another name.")
        found = [_of_estimator(str(name), model) for name, model in models.items()]
    else:
        listed: Iterable[Any] = [models] if isinstance(models, str) or is_registered(type(models)) else models
        found = [_named(model, known, kind) if isinstance(model, str) else _of_estimator("", model) for model in listed]
    names = [candidate.name for candidate in found]
    if not names:
        raise InvalidInputError(f"models is empty: name some of {', '.join(known)}, or leave it out.")
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise InvalidInputError(f"models has {repeated[0]!r} twice: pass a mapping with a name of its own for each.")
    return tuple(_taking_missing_cells(candidate) for candidate in found) if missing else tuple(found)


def _taking_missing_cells(candidate: Candidate) -> Candidate:
    return replace(candidate, settings={**candidate.settings, **candidate.estimator.declares.missing_settings})


def _named(name: str, known: Mapping[str, Candidate], kind: str) -> Candidate:
    if name not in known:
        raise InvalidInputError(f"there is no model of {kind} called {name!r}: models are {', '.join(known)}.")
    return known[name]


def _of_estimator(name: str, model: Any) -> Candidate:
    cls = type(model)
    if not is_registered(cls):
        raise InvalidInputError(f"models must be names or unfitted estimators of partwise, got {cls.__name__}.")
    settings = {key: value for key, value in model.get_params(deep=False).items() if key not in _NOT_SETTINGS}
    return Candidate(name or cls.__name__, settings, estimator=cls)
