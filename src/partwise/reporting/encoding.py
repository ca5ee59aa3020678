"""Encode text, numbers and pictures safely for a page."""

import base64
import json
import math
import struct
import unicodedata
import zlib
from typing import Any

import numpy as np

LONGEST = 120
"""Longest label that is kept, in characters."""

# Characters that change the direction of text: one label could change how others look.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_HIDDEN = frozenset({"Cc", "Cs", "Cn", "Co", "Zl", "Zp"})
# What could end the element that holds the JSON, start a comment in it, or end a line of JavaScript.
_IN_JSON = {ord(character): f"\\u{ord(character):04x}" for character in "<>&'\u2028\u2029"}


def visible(text: Any, longest: int = LONGEST) -> str:
    r"""A label that is safe to show: shortened, with characters that are invisible or change direction escaped.

    Parameters
    ----------
    text
        The label.
    longest
        Largest number of characters.

    Examples
    --------
    >>> visible("a\u202eb\x00"), visible("abcdef", 4)
    ('a\\u202eb\\u0000', 'abc…')
    """
    cut = str(text)
    cut = cut if len(cut) <= longest else cut[: longest - 1] + "…"
    if cut.isascii() and cut.isprintable():  # most texts; large tables have many
        return cut
    hidden = (one for one in set(cut) if one in _TURNING or unicodedata.category(one) in _HIDDEN)
    spelled = {ord(one): f"\\u{ord(one):04x}" if ord(one) < 0x10000 else f"\\U{ord(one):08x}" for one in hidden}
    return cut.translate(spelled)


def embedded_json(content: Any) -> str:
    r"""JSON that is safe inside a script element: nothing in it can end the element or a line.

    Parameters
    ----------
    content
        Finite numbers, texts, lists, dictionaries and None.

    Examples
    --------
    >>> embedded_json({"label": "</script>"})
    '{"label":"\\u003c/script\\u003e"}'
    """
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_IN_JSON)


def rounded(values: Any, digits: int = 4) -> list[float | int | None]:
    """Numbers rounded to some significant digits, None where they are not finite.

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
    """A number for people: digits in groups of three, fractions with four significant digits.

    Examples
    --------
    >>> in_words(1234567), in_words(0.123456)
    ('1,234,567', '0.1235')
    """
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.4g}"


def grey_png(values: Any) -> str:
    """A picture as ``data:image/png;base64,...``; large values are dark.

    Parameters
    ----------
    values
        Height x width, nonnegative; an empty picture is white.

    Examples
    --------
    >>> grey_png([[0.0, 1.0]])[:22]
    'data:image/png;base64,'
    """
    pixels = np.asarray(values, dtype=np.float64)
    largest = float(pixels.max(initial=0.0))
    ink = np.round(255.0 * (1.0 - pixels / (largest if largest > 0 else 1.0))).astype(np.uint8)
    height, width = ink.shape
    # each line starts with its filter type: none
    lines = np.hstack([np.zeros((height, 1), dtype=np.uint8), ink]).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = (_chunk(b"IHDR", head), _chunk(b"IDAT", zlib.compress(lines, 9)), _chunk(b"IEND", b""))
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode("ascii")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
