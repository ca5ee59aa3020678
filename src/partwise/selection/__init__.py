"""Choosing between models, and between numbers of parts."""

from partwise.selection.rank import CRITERIA, RankSelection, select_rank

__all__ = ["CRITERIA", "RankSelection", "select_rank"]
