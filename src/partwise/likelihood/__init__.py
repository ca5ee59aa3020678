"""Estimators of log p(x) of rows of counts under a Gamma-Poisson model: one file an estimator, one signature."""

from partwise.likelihood.annealed import annealed
from partwise.likelihood.auto import auto
from partwise.likelihood.direct_sampling import direct_sampling
from partwise.likelihood.exact import exact, exact_cost
from partwise.likelihood.harmonic_mean import harmonic_mean
from partwise.likelihood.heldout import Perplexity, document_completion, perplexity, word_prediction
from partwise.likelihood.left_to_right import left_to_right
from partwise.likelihood.moments import PosteriorMoments, posterior_moments
from partwise.likelihood.plan import ExactCost
from partwise.likelihood.result import LogLikelihood
from partwise.likelihood.smc import smc

__all__ = [
    "ExactCost",
    "LogLikelihood",
    "Perplexity",
    "PosteriorMoments",
    "annealed",
    "auto",
    "direct_sampling",
    "document_completion",
    "exact",
    "exact_cost",
    "harmonic_mean",
    "left_to_right",
    "perplexity",
    "posterior_moments",
    "smc",
    "word_prediction",
]
