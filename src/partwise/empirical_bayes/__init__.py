"""Empirical Bayes for Poisson means and Poisson factorization: the priors are learned from the data."""
