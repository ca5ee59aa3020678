"""Algorithms for empirical Bayes Poisson factorization."""
