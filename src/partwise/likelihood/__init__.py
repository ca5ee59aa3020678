"""Estimators of log p(x) of rows of counts under a Gamma-Poisson model: one file an estimator, one signature."""

from partwise.likelihood.smc import smc

__all__ = ["smc"]
