"""Types of matplotlib, which is optional: only a type checker imports them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase
else:
    Axes = Figure = FigureBase = Any

__all__ = ["Axes", "Figure", "FigureBase"]
