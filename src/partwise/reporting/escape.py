"""Hostile text made harmless: in HTML, in attributes, and in JSON inside a page."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

LONGEST = 120
"""Characters of a label that are kept."""

# Characters that turn the direction of text: one label could rewrite what is shown of the others.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_HIDDEN = frozenset({"Cc", "Cs", "Cn", "Co", "Zl", "Zp"})
# What could end the element that holds the JSON, start a comment in it, or end a line of JavaScript.
_IN_JSON = {ord(character): f"\\u{ord(character):04x}" for character in "<>&'\u2028\u2029"}


def visible(text: Any, longest: int = LONGEST) -> str:
    r"""A label as it may be shown: not too long, and characters that cannot be seen, or turn text around, spelled out.

    Parameters
    ----------
    text
        The label.
    longest
        Most characters.

    Examples
    --------
    >>> visible("a\u202eb\x00"), visible("abcdef", 4)
    ('a\\u202eb\\u0000', 'abc…')
    """
    cut = str(text)
    cut = cut if len(cut) <= longest else cut[: longest - 1] + "…"
    if cut.isascii() and cut.isprintable():  # most text, of which large tables have much
        return cut
    return "".join(_spelled(character) if _is_hidden(character) else character for character in cut)


def _is_hidden(character: str) -> bool:
    return character in _TURNING or unicodedata.category(character) in _HIDDEN


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def embedded_json(content: Any) -> str:
    r"""JSON that may stand inside a script element: nothing in it can end the element or a line.

    Parameters
    ----------
    content
        Numbers, texts, lists, dictionaries and None; finite numbers only.

    Examples
    --------
    >>> embedded_json({"label": "</script>"})
    '{"label":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_IN_JSON)
