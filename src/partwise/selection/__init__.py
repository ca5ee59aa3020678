"""Choose a model and its number of parts."""

from partwise.contract.declaration import Candidate
from partwise.metrics.dispersion import Dispersion
from partwise.metrics.matching import match_parts, stability
from partwise.selection.candidates import candidates_of, model_names
from partwise.selection.comparing import compare
from partwise.selection.comparison import Comparison, Row
from partwise.selection.noise import dispersion_test
from partwise.selection.rank import CRITERIA, RankSelection, select_rank
from partwise.selection.standings import Choice, Difference

__all__ = [
    "CRITERIA",
    "Candidate",
    "Choice",
    "Comparison",
    "Difference",
    "Dispersion",
    "RankSelection",
    "Row",
    "candidates_of",
    "compare",
    "dispersion_test",
    "match_parts",
    "model_names",
    "select_rank",
    "stability",
]
