"""Gamma-Poisson factorization: activations have gamma priors, so they can be integrated out."""

from partwise.gamma_poisson.model import GammaPoissonModel, NegativeMultinomial

__all__ = ["GammaPoissonModel", "NegativeMultinomial"]
