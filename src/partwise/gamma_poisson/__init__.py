"""Gamma-Poisson factorization: activations have gamma priors, so they can be integrated out."""

from partwise.gamma_poisson.model import GammaPoissonModel
from partwise.gamma_poisson.negative_multinomial import NegativeMultinomial

__all__ = ["GammaPoissonModel", "NegativeMultinomial"]
