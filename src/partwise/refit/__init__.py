"""Given parts: which references parts of a model are like, and whether data hold what the parts lack."""

from partwise.refit.lacking import LackingTest, lacking
from partwise.refit.matching import PartMatch, PartMatches, match

__all__ = ["LackingTest", "PartMatch", "PartMatches", "lacking", "match"]
