"""The swimmer of Donoho & Stodden (2004): a torso, and four limbs in four positions each."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.errors import InvalidInputError

SWIMMER_SHAPE = (32, 32)

_TOP, _BOTTOM, _MIDDLE = 10, 21, 15
_LIMB_PIXELS = 6
# Rows grow downward; columns are those of a left limb and are mirrored for a right one.
_ARM_STEPS = ((-1, 0), (-1, -1), (0, -1), (1, -1))


class Swimmer(NamedTuple):
    """Pictures (256 x 1024 counts), the 17 parts (17 x 1024, zeros and ones) and which are in each picture (256 x 17).

    The torso is the last part; limb l in position p is part 4 l + p.
    """

    counts: NDArray[np.int64]
    parts: NDArray[np.int64]
    present: NDArray[np.int64]


def swimmer(level: int = 1) -> Swimmer:
    """All 256 pictures of a swimmer, 32 x 32 pixels: the torso, and each of four limbs in one of four positions.

    The parts have no pixel in common. The torso is in every picture, which is why exact decompositions are not unique:
    the torso can be hidden in the limbs.

    Parameters
    ----------
    level
        Count of a pixel that is on.

    Examples
    --------
    >>> from partwise.datasets import swimmer
    >>> counts, parts, present = swimmer()
    >>> counts.shape, parts.sum(axis=1)[-2:].tolist(), bool((counts == present @ parts).all())
    ((256, 1024), [6, 16], True)
    """
    if level < 1:
        raise InvalidInputError(f"level must be a count of at least 1, got {level}.")
    parts = np.zeros((17, *SWIMMER_SHAPE), dtype=np.int64)
    for limb, (joint, down, side) in enumerate(((_TOP, 1, -1), (_TOP, 1, 1), (_BOTTOM, -1, -1), (_BOTTOM, -1, 1))):
        for position, (row_step, column_step) in enumerate(_ARM_STEPS):
            steps = np.arange(1, _LIMB_PIXELS + 1)
            rows = joint + down * row_step * steps
            columns = _MIDDLE + side - side * column_step * steps
            parts[4 * limb + position, rows, columns] = 1
    parts[16, _TOP : _BOTTOM + 1, _MIDDLE] = 1
    for row, column in itertools.product((_TOP, _BOTTOM), (_MIDDLE - 1, _MIDDLE + 1)):
        parts[16, row, column] = 1
    present = np.zeros((256, 17), dtype=np.int64)
    for picture, positions in enumerate(itertools.product(range(4), repeat=4)):
        present[picture, [4 * limb + position for limb, position in enumerate(positions)]] = 1
    present[:, 16] = 1
    flat = parts.reshape(17, -1)
    return Swimmer(level * present @ flat, flat, present)
