"""The pass over the nonzeros of one side of the data, which all count models share."""

from partwise.passes.side import Side

__all__ = ["Side"]
