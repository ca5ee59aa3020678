"""Algorithms for Gamma-Poisson factorization, one file each."""
