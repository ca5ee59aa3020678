"""Numbers of parts that are tried when none are given, one after the other, and those that would come next."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

_FIRST = (1, 2, 3, 4, 5, 6, 7, 8)
# Each a fifth to a third more than the last; then the same times 10, and so on.
_DECADE = (10, 12, 15, 20, 25, 30, 40, 50, 65, 80)

# Without being asked for, at most one part for so many rows, these many parts in any case, and never more than so many.
_ROWS_A_PART, _ALWAYS, _MOST = 8, 8, 100
# Models that still gain there go on to one part for so many rows.
_ROWS_A_PART_AT_MOST = 4
# Numbers of parts that are advised beyond those that were tried.
_ADVISED = 3


def steps() -> Iterator[int]:
    """All numbers of parts of the ladder, without end.

    Examples
    --------
    >>> from itertools import islice
    >>> list(islice(steps(), 7, 12)), list(islice(steps(), 17, 20))
    ([8, 10, 12, 15, 20], [80, 100, 120])
    """
    yield from _FIRST
    scale = 1
    while True:
        yield from (scale * step for step in _DECADE)
        scale *= 10


def default_ranks(shape: tuple[int, int], *, further: bool = False) -> list[int]:
    """The part of the ladder that data of a shape are tried on: at most one part for eight rows, and 100 parts.

    Parameters
    ----------
    shape
        Samples, features.
    further
        Whether to go on to one part for four rows.

    Examples
    --------
    >>> default_ranks((100, 60))
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12]
    >>> default_ranks((100, 60), further=True)[-3:]
    [15, 20, 25]
    """
    most = min(max(_ALWAYS, shape[0] // (_ROWS_A_PART_AT_MOST if further else _ROWS_A_PART)), min(shape) - 1, _MOST)
    return list(takewhile(lambda rank: rank <= max(most, 1), steps()))


def ranks_beyond(tried: list[int], rank: int, shape: tuple[int, int], smallest: int = 1) -> list[int]:
    """What to try next when the best number of parts is at an end of those that were tried: it and those beyond.

    Parameters
    ----------
    tried
        Numbers of parts, rising.
    rank
        The best of them.
    shape
        Samples, features: there are never as many parts.
    smallest
        Smallest number of parts that the model makes sense with.

    Returns
    -------
    list of int
        Empty if there is nothing beyond.

    Examples
    --------
    >>> ranks_beyond([2, 4, 8], 8, (100, 60)), ranks_beyond([2, 4, 8], 2, (100, 60)), ranks_beyond([2, 4, 8], 4, (9, 9))
    ([8, 10, 12, 15], [1, 2], [])
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
