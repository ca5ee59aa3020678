"""Empirical Bayes for Poisson means and Poisson factorization: the data choose the priors."""
