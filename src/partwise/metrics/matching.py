"""Whether restarts find the same parts: match parts one to one and compare them by cosine."""

import itertools
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats, Places


def match_parts(one: Floats, other: Floats) -> tuple[Places, Places, Floats]:
    """Match the parts of two dictionaries one to one so that the sum of cosines is largest (Hungarian assignment).

    Parameters
    ----------
    one, other
        Parts x features. If one has fewer parts, it determines the number of pairs.

    Returns
    -------
    first, second, cosines
        Positions of matched parts in each dictionary, and their cosines (0 to 1 for nonnegative parts).

    Examples
    --------
    >>> import numpy as np
    >>> first, second, cosines = match_parts(np.eye(3), 2.0 * np.eye(3)[[2, 0, 1]])
    >>> second.tolist(), cosines.tolist()
    ([1, 2, 0], [1.0, 1.0, 1.0])
    """
    one, other = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if one.ndim != 2 or other.ndim != 2 or one.shape[1] != other.shape[1]:
        shapes = f"{one.shape} and {other.shape}"
        raise InvalidInputError(f"both must be parts x features, of the same features, got shapes {shapes}.")
    similarity = unit_parts(one) @ unit_parts(other).T
    first, second = linear_sum_assignment(similarity, maximize=True)
    return first, second, np.asarray(similarity[first, second])


def stability(dictionaries: Sequence[Floats]) -> float:
    """Mean cosine of matched parts over all pairs of restarts; NaN for fewer than two.

    Parameters
    ----------
    dictionaries
        Parts x features of each restart.

    Examples
    --------
    >>> import numpy as np
    >>> stability([np.eye(2), np.eye(2)[::-1]])
    1.0
    """
    pairs = list(itertools.combinations([np.asarray(parts) for parts in dictionaries if len(parts)], 2))
    if not pairs:
        return float("nan")
    return float(np.mean([match_parts(one, other)[2].mean() for one, other in pairs]))


def unit_parts(parts: Floats) -> Floats:
    """Parts scaled to unit length; parts of zeros stay zero."""
    lengths = np.sqrt(np.square(parts).sum(axis=1, keepdims=True))
    return np.asarray(np.divide(parts, lengths, out=np.zeros_like(parts), where=lengths > 0))
