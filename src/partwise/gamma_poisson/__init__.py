"""Gamma-Poisson factorization: activations have gamma priors and can be integrated out."""

from partwise.gamma_poisson.model import GammaPoissonModel

__all__ = ["GammaPoissonModel"]
