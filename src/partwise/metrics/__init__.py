"""Measures of fitted parts and of lists."""

from partwise.metrics.ranking import RankingScore, RankingScores, ranking_scores
from partwise.metrics.sparseness import hoyer_sparseness

__all__ = ["RankingScore", "RankingScores", "hoyer_sparseness", "ranking_scores"]
