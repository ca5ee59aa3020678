"""Estimators of log p(x) of rows of counts under a Gamma-Poisson model: one file an estimator, one signature."""

from partwise.likelihood.annealed import annealed
from partwise.likelihood.direct_sampling import direct_sampling
from partwise.likelihood.harmonic_mean import harmonic_mean
from partwise.likelihood.left_to_right import left_to_right
from partwise.likelihood.result import LogLikelihood
from partwise.likelihood.smc import smc

__all__ = ["LogLikelihood", "annealed", "direct_sampling", "harmonic_mean", "left_to_right", "smc"]
