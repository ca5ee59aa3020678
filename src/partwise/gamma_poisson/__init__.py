"""Gamma-Poisson factorization: activations have gamma priors, so they can be integrated out."""
