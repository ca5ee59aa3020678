"""Measures of fitted parts."""

from partwise.metrics.sparseness import hoyer_sparseness

__all__ = ["hoyer_sparseness"]
