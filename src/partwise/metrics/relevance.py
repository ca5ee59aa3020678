"""Which features make a part: the likeliest, those most particular to it, or a balance of the two."""

from __future__ import annotations

from typing import Literal

import numpy as np

from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats

By = Literal["relevance", "probability", "lift"]

BALANCE = 0.3
"""λ of the relevance λ log p(f | k) + (1 - λ) log(p(f | k) / p(f)) of Sievert & Shirley (2014).

They chose 0.6 for words without stop words. Of texts with stop words, and of cells, parts then still list what all
parts have in common ("the", mitochondrial genes); at 0.3 they do not.
"""

# Features of one part alone have the same lift up to rounding: such ties go to the likelier feature.
_DIGITS = 3


def relevance(inside: Floats, overall: Floats, balance: float = BALANCE) -> Floats:
    """Relevance of features in a part (Sievert & Shirley 2014), in nats; -inf where the part has nothing of a feature.

    Parameters
    ----------
    inside
        Share of the part that each feature makes up.
    overall
        Share of everything that each feature makes up.
    balance
        λ: 1 ranks by the share of the part, 0 by how much greater it is than the share of everything.
    """
    present = (inside > 0) & (overall > 0)
    found = np.full(inside.shape, -np.inf)
    log_inside = np.log(inside[present])
    found[present] = balance * log_inside + (1.0 - balance) * (log_inside - np.log(overall[present]))
    return found


def ranked(inside: Floats, overall: Floats, n: int, by: By) -> list[tuple[int, float]]:
    """Positions and values of the first features of a part, largest first; features that it lacks are left out.

    Parameters
    ----------
    inside, overall
        Shares of the part and of everything. Where the part has negative weights they count by their size.
    n
        Most features.
    by
        ``"relevance"``, ``"probability"`` or ``"lift"`` (share of the part over share of everything).
    """
    if n < 1:
        raise InvalidInputError(f"n must be at least 1, got {n}.")
    if by not in ("relevance", "probability", "lift"):
        raise InvalidInputError(f"by={by!r} is unknown: give 'relevance', 'probability' or 'lift'.")
    size = np.abs(inside)
    values, scores = inside, size
    if by != "probability" and not np.any(inside < 0):
        scores = relevance(size, overall, BALANCE if by == "relevance" else 0.0)
        values = scores if by == "relevance" else np.exp(scores)
        scores = np.round(scores, _DIGITS)
    order = np.lexsort((np.arange(size.size), -size, -scores))[:n]
    return [(int(f), float(values[f])) for f in order if size[f] > 0]
