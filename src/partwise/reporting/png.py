"""Small grey pictures as data addresses, written without a library of images."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np


def grey_png(values: Any) -> str:
    """A picture, dark where values are large, as ``data:image/png;base64,...``.

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
    # each line starts with the filter that it uses: none
    lines = np.hstack([np.zeros((height, 1), dtype=np.uint8), ink]).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = (_chunk(b"IHDR", head), _chunk(b"IDAT", zlib.compress(lines, 9)), _chunk(b"IEND", b""))
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode("ascii")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
