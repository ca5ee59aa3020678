"""Priors of Poisson rates: what turns allocated counts and exposure into a rate. One file per prior, one signature."""
