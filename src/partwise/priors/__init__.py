"""Priors of Poisson rates: they turn allocated counts and exposures into rates. One file per prior, one interface."""
