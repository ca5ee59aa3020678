"""How to cite a fit: partwise itself, and the paper of its model."""

from __future__ import annotations

from typing import Any

from partwise._version import __version__

RELEVANCE = (
    "Sievert, C. & Shirley, K. (2014). LDAvis: a method for visualizing and interpreting topics. Workshop on "
    "Interactive Language Learning, Visualization, and Interfaces."
)
"""Where the relevance of features comes from."""


def citations(model: Any) -> list[str]:
    """What to cite, a line each.

    Parameters
    ----------
    model
        Fitted estimator.
    """
    own = (
        f"The partwise developers. partwise {__version__}: probabilistic nonnegative matrix factorization of count and "
        "binary data."
    )
    return [own, *model.declares.papers, RELEVANCE]
