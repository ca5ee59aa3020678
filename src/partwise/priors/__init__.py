"""Priors of Poisson rates: what turns allocated counts and exposure into a rate. One file a prior, one signature."""
