"""Colours that tell many parts apart, for colour-blind readers too."""

from __future__ import annotations

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#666666")
"""Colours of Okabe and Ito, dark and light in turn."""

PART_COLOURS = (
    *("#0072B2", "#D55E00", "#56B4E9", "#E69F00", "#666666", "#F0E442", "#009E73", "#8C0DF2", "#0DF2F2", "#73260D"),
    *("#260D8C", "#D9A6A6", "#590D59", "#8CF273", "#CC79A7", "#8C73F2", "#A65940", "#BFF2A6", "#264040", "#A6A659"),
)
"""The same and twelve more, as far from each other in CIELAB as can be, also in simulated colour blindness.

The order keeps neighbours at a distance of at least 40: parts that touch in a picture are told apart.
"""

TINTS = ("#56B4E9", "#333333", "#D55E00", "#CCCCCC", "#009E73", "#CC79A7")
"""Six of them, near to the colours that mutation signatures are known by."""


def part_colour(position: int) -> str:
    """The colour of the part that is drawn at some position, different for the first 20.

    Examples
    --------
    >>> part_colour(0) != part_colour(8)
    True
    """
    return PART_COLOURS[position % len(PART_COLOURS)]


def ink_on(colour: str) -> str:
    """Black or white, whichever is read better on a colour.

    Examples
    --------
    >>> ink_on("#0072B2"), ink_on("#F0E442")
    ('white', 'black')
    """
    red, green, blue = (int(colour[at : at + 2], 16) / 255.0 for at in (1, 3, 5))
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else "black"
