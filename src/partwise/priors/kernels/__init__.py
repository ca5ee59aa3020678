"""Compiled loops of the rate priors."""
