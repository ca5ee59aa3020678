"""What many random starts of a model agree on: consensus parts, their stability, and outliers."""

from partwise.restarts.clustering import PartClusters, cluster_parts
from partwise.restarts.consensus import Consensus, consensus, consensus_by_rank, write_cnmf_tables

__all__ = ["Consensus", "PartClusters", "cluster_parts", "consensus", "consensus_by_rank", "write_cnmf_tables"]
