"""Engines process blocks of rows and sum the results in an order that does not depend on the number of workers."""

from partwise.engines.base import Engine
from partwise.engines.blocks import row_blocks
from partwise.engines.local import LocalEngine, resolve_engine

__all__ = ["Engine", "LocalEngine", "resolve_engine", "row_blocks"]
