"""Bayesian NMF as an allocation model: every count is split over parts, and everything else can be integrated out."""

from partwise.allocation.exact import exact_log_marginal
from partwise.allocation.inference.marginal import log_marginal_likelihood
from partwise.allocation.model import AllocationModel

__all__ = ["AllocationModel", "exact_log_marginal", "log_marginal_likelihood"]
