"""Algorithms of empirical Bayes Poisson factorization."""
