"""Colours and hatches that tell many parts apart, for colour-blind readers too, and in print."""

from __future__ import annotations

from typing import NamedTuple

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#666666")
"""Colours of Okabe and Ito, dark and light in turn."""

HATCHES = ("", "////", "....", "xxxx", "----", "++++")
"""Told apart where colours come round again."""

TINTS = ("#56B4E9", "#333333", "#D55E00", "#CCCCCC", "#009E73", "#CC79A7")
"""Six of them, near to the colours that mutation signatures are known by."""


class Style(NamedTuple):
    """How a part is filled."""

    colour: str
    hatch: str


def part_style(position: int) -> Style:
    """The style of the part that is drawn at some position, different for the first 48.

    Examples
    --------
    >>> part_style(0) != part_style(8)
    True
    """
    return Style(COLOURS[position % len(COLOURS)], HATCHES[position // len(COLOURS) % len(HATCHES)])
