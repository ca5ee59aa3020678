"""Random draws inside kernels, each from a stream (see `partwise.kernels.streams`), which is the first argument.

Parameters are trusted, not checked; degenerate ones (shape 0, mean 0, all weight in one place) give their limit.
"""

from __future__ import annotations

from partwise.kernels.categories import categorical, multinomial
from partwise.kernels.continuous import beta, dirichlet, gamma, log_beta_pair, log_dirichlet, log_gamma_variate
from partwise.kernels.discrete import binomial, negative_binomial, poisson

__all__ = [
    "beta",
    "binomial",
    "categorical",
    "dirichlet",
    "gamma",
    "log_beta_pair",
    "log_dirichlet",
    "log_gamma_variate",
    "multinomial",
    "negative_binomial",
    "poisson",
]
