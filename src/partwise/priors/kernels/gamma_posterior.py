"""Posterior of rates under one gamma distribution: what a factorization asks for at every sweep."""

from __future__ import annotations

import math

from partwise.kernels.gamma_functions import ASYMPTOTIC, HALF_LOG_TWO_PI, digamma_rest, stirling_rest
from partwise.kernels.jit import kernel
from partwise.priors.base import Floats

# Counts this small beside the shape: four terms of Taylor's series are exact to the last digit.
_TINY = 1e-4
_PRODUCTS_AT_ONCE = 8


@kernel
def gamma_posterior(
    counts: Floats,
    exposure: Floats,
    shape: float,
    mean: float,
    log_gamma: float,
    polygammas: Floats,
    out_mean: Floats,
    out_geometric: Floats,
) -> float:
    """``out_mean, out_geometric = (a + x) / r, exp(digamma(a + x)) / r`` with ``a = shape, r = a / mean + exposure``.

    Returns ``sum(x * digamma(a + x) - gammaln(a + x) + gammaln(a) + a * log(r * mean / a) - exposure * out_mean)``, the
    divergence of the posterior from the prior. ``log_gamma = gammaln(a)``, and ``polygammas`` are digamma(a) and its
    first three derivatives. Good for shapes up to a thousand.
    """
    psi, psi_1, psi_2, psi_3 = polygammas[0], polygammas[1], polygammas[2], polygammas[3]
    geometric = math.exp(psi)
    tiny = _TINY * shape
    # The logarithm of a product of shifts is taken for several counts together.
    product = 1.0
    n_products = 0
    divergence = 0.0
    one_exposure = exposure.size == 1
    rate = shape / mean + exposure[0]
    inverse = 1.0 / rate
    log_ratio = math.log1p(exposure[0] * mean / shape)
    for i in range(counts.size):
        x = counts[i]
        if not one_exposure:
            rate = shape / mean + exposure[i]
            inverse = 1.0 / rate
            log_ratio = math.log1p(exposure[i] * mean / shape)
        posterior_mean = (shape + x) * inverse
        out_mean[i] = posterior_mean
        divergence += shape * log_ratio - (1.0 - shape / mean * inverse) * (shape + x)
        if x < tiny:
            out_geometric[i] = geometric * math.exp(x * (psi_1 + x * (psi_2 / 2.0 + x * psi_3 / 6.0))) * inverse
            divergence += x * x * (psi_1 / 2.0 + x * (psi_2 / 3.0 + x * psi_3 / 8.0))
            continue
        moved = shape + x
        inverse_sum = 0.0
        while moved < ASYMPTOTIC:
            product *= moved
            inverse_sum += 1.0 / moved
            moved += 1.0
        n_products += 1
        if n_products == _PRODUCTS_AT_ONCE:
            divergence += math.log(product)
            product = 1.0
            n_products = 0
        log_moved = math.log(moved)
        digamma = log_moved - 0.5 / moved - digamma_rest(moved) - inverse_sum
        out_geometric[i] = math.exp(digamma) * inverse
        log_gamma_moved = (moved - 0.5) * log_moved - moved + stirling_rest(moved) + HALF_LOG_TWO_PI
        divergence += x * digamma - log_gamma_moved + log_gamma
    return divergence + math.log(product)
