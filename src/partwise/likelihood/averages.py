"""Means of positive terms given by their logarithms: their standard errors, and when these are not reliable."""

import numpy as np
from scipy.special import ndtr, stdtrit

from partwise.kernels.arrays import Floats, Integers

# Estimates with a larger tail index need more draws than anyone can afford (Vehtari et al. 2024).
MOST_PARETO_K = 0.7

# How much wider errors become per unit of the variance of logarithms, between these bounds.
_SKEWED = 0.4
_HARDLY_SKEWED, _MOST_SKEWED = 0.1, 4.0
_LARGEST_VARIANCE = 700.0  # of logarithms; beyond, exponentials overflow


def log_mean(logs: Floats, *, log_normal: bool = False) -> tuple[Floats, Floats, Floats]:
    """Log of the mean of each row's exponentials, its standard error, and the effective number of terms.

    The terms of a row are independent and have equal expectations: draws, annealed runs or islands. If all of them are
    zero, nothing is known and the error is infinite.

    Parameters
    ----------
    logs
        Rows x terms.
    log_normal
        Whether logarithms of terms are approximately normal, as those of particle systems are. Their spread then
        reveals large terms that have not been seen.
    """
    n_terms = logs.shape[1]
    top = logs.max(axis=1, keepdims=True)
    known = top[:, 0] > -np.inf
    terms = np.exp(logs - np.where(known[:, None], top, 0.0))
    mean = np.where(known, terms.mean(axis=1), 1.0)
    squares = np.where(known, np.square(terms).mean(axis=1), 1.0)
    variances = np.var(logs, axis=1, ddof=1) if log_normal else np.zeros(logs.shape[0])
    errors = log_mean_error(n_terms, squares / mean**2, variances)
    ess = np.where(known, n_terms * mean**2, 0.0) / squares
    return top[:, 0] + np.log(mean), np.where(known, errors, np.inf), ess


def log_mean_error(n_terms: int | Integers, squares: Floats, log_variances: Floats, lost_freedom: int = 1) -> Floats:
    """Standard error of the logarithm of a mean of independent positive terms.

    It comes from the spread of the terms. If logarithms are widely spread, it is at least what normal logarithms would
    give: a few terms of a skewed distribution rarely include the large ones that dominate its mean. Errors of few terms
    are widened, by 16% for 12 terms and 6% for 24, so that two of them cover as much as two standard deviations of a
    normal distribution (Student's t). Spread logarithms widen them further, because the mean is then skewed.

    Parameters
    ----------
    n_terms
        Number of terms.
    squares
        Mean of the squared terms divided by their squared mean.
    log_variances
        Variance of the logarithms of the terms; 0 = do not use it.
    lost_freedom
        Number of terms minus the degrees of freedom of their spread.
    """
    plain = np.maximum(squares - 1.0, 0.0) / (n_terms - 1)
    skewed = np.log1p(np.expm1(np.minimum(log_variances, _LARGEST_VARIANCE)) / n_terms)
    skewed = np.where(log_variances > _HARDLY_SKEWED, skewed, 0.0)
    widened = stdtrit(n_terms - lost_freedom, ndtr(2.0)) / 2.0
    widened *= 1.0 + _SKEWED * np.clip(log_variances - _HARDLY_SKEWED, 0.0, _MOST_SKEWED)
    return np.asarray(np.sqrt(np.maximum(plain, skewed)) * widened)


def pareto_k(logs: Floats) -> Floats:
    """Index of the generalised Pareto distribution that fits the largest terms of each row (Zhang and Stephens 2009).

    Below 1/2, terms have a finite variance. Above 0.7, their mean and its error are not reliable, because most of the
    mean is in terms that are too rare to be seen. -inf if all terms are equal.

    Parameters
    ----------
    logs
        Rows x at least 25 terms, as logarithms.
    """
    n_terms = logs.shape[1]
    n_tail = int(min(0.2 * n_terms, 3.0 * np.sqrt(n_terms)))
    tail = np.sort(logs, axis=1)[:, -n_tail - 1 :]
    top = tail[:, -1:]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        terms = np.exp(tail - top)
        excess = terms[:, 1:] - terms[:, :1]
        largest, quartile = excess[:, -1], excess[:, int(n_tail / 4 + 0.5) - 1]
        n_points = 30 + int(np.sqrt(n_tail))
        offsets = 1.0 - np.sqrt(n_points / (np.arange(n_points) + 0.5))
        slopes = 1.0 / largest[:, None] + offsets / (3.0 * np.maximum(quartile, 1e-300)[:, None])
        indices = np.log1p(-slopes[:, :, None] * excess[:, None, :]).mean(axis=2)
        profile = n_tail * (np.log(-slopes / indices) - indices - 1.0)
        weights = np.exp(profile - profile.max(axis=1, keepdims=True))
        index = np.log1p(-((slopes * weights).sum(axis=1) / weights.sum(axis=1))[:, None] * excess).mean(axis=1)
    # A weak prior centred at 1/2, because few terms determine their tail poorly.
    return np.where(largest > 0.0, (n_tail * index + 5.0) / (n_tail + 10.0), -np.inf)
