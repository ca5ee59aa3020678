"""Numbers as short as a page needs them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def rounded(values: Any, digits: int = 4) -> list[float | int | None]:
    """Numbers to some significant digits, None where they are not finite.

    Examples
    --------
    >>> rounded([0.123456, 12345.678, 2.0, float("nan")])
    [0.1235, 12350, 2, None]
    """
    return [_short(float(value), digits) for value in np.asarray(values, dtype=np.float64).ravel()]


def _short(value: float, digits: int) -> float | int | None:
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def in_words(value: float) -> str:
    r"""A number for people: groups of three digits, four significant digits of a fraction.

    Examples
    --------
    >>> in_words(1234567), in_words(0.123456)
    ('1\u202f234\u202f567', '0.1235')
    """
    return f"{value:,.0f}".replace(",", "\u202f") if float(value).is_integer() else f"{value:.4g}"
