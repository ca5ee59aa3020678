"""Given parts: find the references most similar to the parts of a model, and test whether parts are lacking."""

from partwise.refit.lacking import LackingTest, lacking
from partwise.refit.matching import PartMatch, PartMatches, match

__all__ = ["LackingTest", "PartMatch", "PartMatches", "lacking", "match"]
