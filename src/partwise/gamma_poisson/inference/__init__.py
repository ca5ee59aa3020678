"""Algorithms for Gamma-Poisson factorization, one per file."""
