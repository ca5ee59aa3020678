"""Measures of fitted parts, of samples in terms of parts, and of lists. None of them is for choosing a model."""

from partwise.metrics.coherence import coherence, diversity, part_measures, part_similarity
from partwise.metrics.ranking import RankingScore, RankingScores, ranking_scores
from partwise.metrics.samples import PartShares, parts_by_group, parts_over_time, representative_samples
from partwise.metrics.sparseness import hoyer_sparseness

__all__ = [
    "PartShares",
    "RankingScore",
    "RankingScores",
    "coherence",
    "diversity",
    "hoyer_sparseness",
    "part_measures",
    "part_similarity",
    "parts_by_group",
    "parts_over_time",
    "ranking_scores",
    "representative_samples",
]
