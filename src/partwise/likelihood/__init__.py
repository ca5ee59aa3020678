"""Log p(x) of rows of counts under a Gamma-Poisson model: exact, or estimated with a standard error.

Use `auto` unless you compare estimators. All are called as ``f(X, dictionary, shape, rate, *, rng, n_draws, n_jobs)``.
They return a `LogLikelihood` with one number per row. These arguments mean the same everywhere:

X
    Rows of counts, of any accepted kind; missing cells are left out.
dictionary
    Features x parts.
shape, rate
    Parameters of the gamma prior of activations: one number, or one per part.
rng
    Seed: int, Generator or None. Each row has its own random stream, determined by its position in X.
n_jobs
    Number of threads; it does not change the result.
"""

from partwise.likelihood.annealed import annealed
from partwise.likelihood.auto import auto
from partwise.likelihood.direct_sampling import direct_sampling
from partwise.likelihood.exact import ExactCost, exact, exact_cost
from partwise.likelihood.harmonic_mean import harmonic_mean
from partwise.likelihood.heldout import MarginalPerplexity, marginal_perplexity, word_prediction
from partwise.likelihood.importance import importance
from partwise.likelihood.left_to_right import left_to_right
from partwise.likelihood.moments import PosteriorMoments, posterior_moments
from partwise.likelihood.problem import LogLikelihood
from partwise.likelihood.smc import smc

__all__ = [
    "ExactCost",
    "LogLikelihood",
    "MarginalPerplexity",
    "PosteriorMoments",
    "annealed",
    "auto",
    "direct_sampling",
    "exact",
    "exact_cost",
    "harmonic_mean",
    "importance",
    "left_to_right",
    "marginal_perplexity",
    "posterior_moments",
    "smc",
    "word_prediction",
]
