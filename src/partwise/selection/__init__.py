"""Choosing between models, and between numbers of parts."""

from partwise.selection.candidates import BINARY_MODELS, COUNT_MODELS, Candidate, model_names
from partwise.selection.comparing import compare
from partwise.selection.comparison import Comparison, Row
from partwise.selection.matching import match_parts, stability
from partwise.selection.rank import CRITERIA, RankSelection, select_rank
from partwise.selection.standings import Choice, Difference

__all__ = [
    "BINARY_MODELS",
    "COUNT_MODELS",
    "CRITERIA",
    "Candidate",
    "Choice",
    "Comparison",
    "Difference",
    "RankSelection",
    "Row",
    "compare",
    "match_parts",
    "model_names",
    "select_rank",
    "stability",
]
