"""The ELBO and the marginal likelihood of tiny problems by quadrature and enumeration; no code of the library."""

from __future__ import annotations

import itertools
from math import lgamma

import numpy as np
from numpy.typing import NDArray
from scipy.stats import gamma

from partwise.priors.mixture import GammaMixture

Floats = NDArray[np.float64]


def support(prior: GammaMixture) -> tuple[Floats, Floats]:
    """Rates and their prior masses: the points of a prior of points, else a fine grid of log rates."""
    if np.isinf(prior.shapes).all():
        return prior.means, prior.weights
    logs, step = np.linspace(-60.0, 8.0, 60_001, retstep=True)
    rates = np.exp(logs)
    density = sum(
        weight * gamma.pdf(rates, shape, scale=mean / shape)
        for weight, shape, mean in zip(prior.weights, prior.shapes, prior.means, strict=True)
    )
    return rates, density * rates * step


def moments(prior: GammaMixture, count: float, exposure: float) -> tuple[float, float, float]:
    """E[λ], E[log λ] and E[log g(λ) / q(λ)] under q(λ) ∝ g(λ) λ^count exp(-exposure λ)."""
    rates, masses = support(prior)
    kept = masses > 0
    rates, masses = rates[kept], masses[kept]
    logs = count * np.log(rates) - exposure * rates
    weights = masses * np.exp(logs - logs.max())
    norm = weights.sum()
    q = weights / norm
    # log g / q = log norm - (count log λ - exposure λ)
    divergence = np.log(norm) + logs.max() - float(q @ logs)
    return float(q @ rates), float(q @ np.log(rates)), divergence


def direct_elbo(
    X: Floats,
    activations: tuple[list[GammaMixture], Floats, Floats],
    dictionary: tuple[list[GammaMixture], Floats, Floats],
) -> float:
    """E_q[log p(Z | h, w) + log g / q - log q(Z)] as EB (6.1) has it, with q(Z) summed over all allocations.

    Each factor is (priors, expected counts, exposures) of which q is the posterior.
    """
    total = 0.0
    means, logs = [], []
    for priors, counts, exposure in (activations, dictionary):
        exposure = np.broadcast_to(exposure, counts.shape)
        found = np.array(
            [[moments(priors[k], counts[i, k], exposure[i, k]) for k in range(len(priors))] for i in range(len(counts))]
        )
        means.append(found[..., 0])
        logs.append(found[..., 1])
        total += found[..., 2].sum()
    n_components = means[0].shape[1]
    for n, f in np.ndindex(X.shape):
        shares = np.exp(logs[0][n] + logs[1][f])
        shares /= shares.sum()
        total -= float(means[0][n] @ means[1][f])
        for allocation in itertools.product(range(int(X[n, f]) + 1), repeat=n_components):
            if sum(allocation) != X[n, f]:
                continue
            z = np.array(allocation)
            factorials = sum(lgamma(part + 1) for part in allocation)
            log_q = lgamma(X[n, f] + 1) - factorials + float(z @ np.log(shares))
            total += np.exp(log_q) * (float(z @ (logs[0][n] + logs[1][f])) - factorials - log_q)
    return float(total)


def log_marginal(X: Floats, activation_priors: list[GammaMixture], dictionary_priors: list[GammaMixture]) -> float:
    """The exact log p(X) under priors of few points, by enumeration of both factors."""
    choices = []
    for n_rows, priors in ((X.shape[0], activation_priors), (X.shape[1], dictionary_priors)):
        rows = [list(zip(*support(prior), strict=True)) for _ in range(n_rows) for prior in priors]
        choices.append(
            [(np.array(pick)[:, 0], float(np.prod(np.array(pick)[:, 1]))) for pick in itertools.product(*rows)]
        )
    n_components = len(activation_priors)
    factorials = sum(lgamma(x + 1) for x in X.ravel())
    total = 0.0
    for values, mass in choices[0]:
        for other, other_mass in choices[1]:
            rates = values.reshape(-1, n_components) @ other.reshape(-1, n_components).T
            total += mass * other_mass * np.exp(float(np.sum(X * np.log(rates) - rates)) - factorials)
    return float(np.log(total))
