"""Which models and choices of K are tried: the declared ones, or those that the caller names."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from operator import attrgetter
from typing import Any

from partwise._registry import estimator_classes, is_registered, registered_models
from partwise.contract.declaration import Candidate
from partwise.errors import InvalidInputError

# Set by the comparison itself, or meaningless in it.
_NOT_SETTINGS = {"n_components", "random_state", "n_jobs", "engine", "progress", "callbacks", "checkpoint", "resume"}
_FIRST = tuple(range(1, 13))
# Each step is a fifth to a third larger than the last; then the same times 10, and so on.
_DECADE = (15, 20, 25, 30, 40, 50, 65, 80, 100, 120)
# Defaults: at most one part per this many rows, but always this many parts, and never more than this many.
_ROWS_A_PART, _ALWAYS, _MOST = 8, 8, 100
# Models that still improve there continue up to one part per this many rows.
_ROWS_A_PART_AT_MOST = 4
# Models that process counts one by one take part up to this many counts, or this many per nonzero cell.
_MANY_TOKENS, _LARGE_COUNT = 1_000_000, 100
# Number of further choices of K that are suggested beyond those that were tried.
_ADVISED = 5


def candidates_of(kind: str) -> tuple[Candidate, ...]:
    """All candidates for a kind of data, the simplest first.

    Parameters
    ----------
    kind
        ``"counts"`` or ``"bits"``.

    Examples
    --------
    >>> candidates_of("counts")[0].name
    'poisson'
    """
    found = [candidate for model in estimator_classes() for candidate in model.candidates(kind)]
    return tuple(sorted(found, key=attrgetter("complexity")))


def model_names(kind: str) -> list[str]:
    """Names of the models that are compared by default.

    Parameters
    ----------
    kind
        ``"counts"`` or ``"bits"``.

    Examples
    --------
    >>> model_names("bits")
    ['dir-beta', 'beta-dir', 'dir-dir', 'logistic-pca', 'poisson']
    """
    return [candidate.name for candidate in candidates_of(kind)]


def chosen_candidates(models: Any, kind: str, *, missing: bool = False) -> tuple[Candidate, ...]:
    """The candidates for the argument ``models``: names, estimators, or a mapping of names to estimators; None = all.

    Parameters
    ----------
    models
        As `partwise.selection.compare` takes it.
    kind
        ``"counts"`` or ``"bits"``.
    missing
        Whether cells are missing; models that need special settings for that get them.
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
        listed: Iterable[Any] = models if isinstance(models, Iterable) and not isinstance(models, str) else [models]
        found = [_named(model, known, kind) if isinstance(model, str) else _of_estimator("", model) for model in listed]
    names = [candidate.name for candidate in found]
    if not names:
        raise InvalidInputError(f"models is empty: name some of {', '.join(known)}, or leave it out.")
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise InvalidInputError(f"models has {repeated[0]!r} twice: pass a mapping with a different name for each.")
    if missing:
        found = [replace(one, settings={**one.settings, **one.estimator.declares.missing_settings}) for one in found]
    return tuple(found)


def too_large_for(
    candidates: Iterable[Candidate], shape: tuple[int, int], total: float = 0.0, nnz: int = 0
) -> dict[str, str]:
    """Candidates for which the data are too large, with one sentence about each.

    Parameters
    ----------
    candidates
        The candidates to check.
    shape
        Samples, features.
    total, nnz
        Sum of all counts, and number of nonzero cells.
    """
    cells, found = shape[0] * shape[1], {}
    for one in candidates:
        if one.most_cells is not None and cells > one.most_cells:
            found[one.name] = f"it works on all {cells:.1e} cells, zeros included; name it in models= to compare it."
        elif one.by_token and total > max(_MANY_TOKENS, _LARGE_COUNT * nnz):
            found[one.name] = f"it processes all {total:.1e} counts one by one; name it in models= to compare it."
    return found


def _named(name: str, known: Mapping[str, Candidate], kind: str) -> Candidate:
    # A common name of a model, such as lda, stands for its first name in the command.
    name = next((model.names[0] for model in registered_models() if name in model.also), name)
    if name not in known:
        raise InvalidInputError(f"there is no model of {kind} called {name!r}: models are {', '.join(known)}.")
    return known[name]


def _of_estimator(name: str, model: Any) -> Candidate:
    cls = type(model)
    if not is_registered(cls):
        raise InvalidInputError(f"models must be names or unfitted estimators of partwise, got {cls.__name__}.")
    settings = {key: value for key, value in model.get_params(deep=False).items() if key not in _NOT_SETTINGS}
    return Candidate(name or cls.__name__, settings, estimator=cls)


def steps() -> Iterator[int]:
    """Every number of parts on the ladder, without end.

    Examples
    --------
    >>> from itertools import islice
    >>> list(islice(steps(), 10, 14)), list(islice(steps(), 19, 23))
    ([11, 12, 15, 20], [80, 100, 120, 150])
    """
    yield from _FIRST
    scale = 1
    while True:
        yield from (scale * step for step in _DECADE)
        scale *= 10


def default_ranks(shape: tuple[int, int], *, further: bool = False) -> list[int]:
    """The part of the ladder for data of a given shape: at most one part per eight rows, and 100 parts.

    Parameters
    ----------
    shape
        Samples, features.
    further
        Whether to continue to one part per four rows.

    Examples
    --------
    >>> default_ranks((100, 60))
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    >>> default_ranks((100, 60), further=True)[-3:]
    [15, 20, 25]
    """
    most = min(max(_ALWAYS, shape[0] // (_ROWS_A_PART_AT_MOST if further else _ROWS_A_PART)), min(shape) - 1, _MOST)
    return list(takewhile(max(most, 1).__ge__, steps()))


def coarse_ranks(ladder: list[int]) -> list[int]:
    """Choices of K from a ladder that at least double at each step, and its last one.

    Parameters
    ----------
    ladder
        Choices of K, increasing.

    Examples
    --------
    >>> coarse_ranks([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    [1, 2, 4, 8, 12]
    """
    found = ladder[:1]
    for rank in ladder[1:]:
        if rank >= 2 * found[-1] or rank == ladder[-1]:
            found.append(rank)
    return found


def ranks_beyond(tried: list[int], rank: int, shape: tuple[int, int], smallest: int = 1) -> list[int]:
    """What to try next if the best number of parts is the smallest or largest tried: this number and those beyond.

    Parameters
    ----------
    tried
        Choices of K, increasing.
    rank
        The best of them.
    shape
        Samples, features: there are always fewer parts than these.
    smallest
        Smallest number of parts with which the model makes sense.

    Returns
    -------
    list of int
        Empty if there is nothing to try.

    Examples
    --------
    >>> ranks_beyond([2, 4, 8], 8, (100, 60)), ranks_beyond([2, 4, 8], 2, (100, 60)), ranks_beyond([2, 4, 8], 4, (9, 9))
    ([8, 9, 10, 11, 12, 15], [1, 2], [])
    """
    if rank == tried[-1]:
        higher = [step for step in takewhile(lambda step: step < min(shape), steps()) if step > rank][:_ADVISED]
        if higher:
            return [rank, *higher]
    if rank == tried[0]:
        lower = [step for step in takewhile(lambda step: step < rank, steps()) if step >= smallest][-_ADVISED:]
        if lower:
            return [*lower, rank]
    return []
