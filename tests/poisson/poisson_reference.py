"""Plain NumPy versions of Poisson factorization, dense and slow, by which the fast ones are judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from partwise import CountMatrix, Table

Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]


@dataclass(frozen=True)
class Example:
    """A dense matrix with a mask, and the same as checked data."""

    X: Floats
    observed: Bits

    @property
    def data(self) -> CountMatrix:
        return CountMatrix.build(Table(self.X, missing=~self.observed), integers=False)


def example(
    seed: int, shape: tuple[int, int] = (23, 17), *, n_parts: int = 3, missing: float = 0.2, real: bool = False
) -> Example:
    """Sparse counts (or reals) of a few parts, with missing cells, an empty row and an empty column."""
    rng = np.random.default_rng(seed)
    dictionary = rng.dirichlet(np.full(shape[1], 0.3), size=n_parts)
    X = rng.poisson(rng.gamma(0.8, 30.0, size=(shape[0], n_parts)) @ dictionary).astype(np.float64)
    if real:
        X *= rng.uniform(0.5, 1.5, size=shape)
    X[shape[0] // 2] = 0
    X[:, shape[1] // 2] = 0
    observed = rng.random(shape) >= missing
    return Example(np.where(observed, X, 0.0), observed)


def log_likelihood(given: Example, activations: Floats, dictionary: Floats, *, constant: bool = False) -> float:
    """Σ x log rate - rate over the observed cells, and - log x! if ``constant``."""
    rates = activations @ dictionary.T
    terms = xlogy(given.X, rates) - rates - (gammaln(given.X + 1) if constant else 0)
    return float(terms[given.observed].sum())


def em_activations(given: Example, activations: Floats, dictionary: Floats) -> Floats:
    """Lee and Seung's update of the activations with weights 1 (observed) and 0 (missing)."""
    rates = activations @ dictionary.T
    ratio = np.divide(given.X, rates, out=np.zeros_like(rates), where=given.X > 0)
    exposure = given.observed @ dictionary
    return activations * np.divide(ratio @ dictionary, exposure, out=np.zeros_like(exposure), where=exposure > 0)


def transposed(given: Example) -> Example:
    return Example(given.X.T, given.observed.T)


def em_step(given: Example, activations: Floats, dictionary: Floats) -> tuple[Floats, Floats]:
    """One iteration of the multiplicative updates, activations first."""
    activations = em_activations(given, activations, dictionary)
    return activations, em_activations(transposed(given), dictionary, activations)


def kkt_residual(given: Example, activations: Floats, dictionary: Floats) -> float:
    """Largest |min(share, gradient)| of both sides."""
    return max(
        _one_sided_residual(given, activations, dictionary),
        _one_sided_residual(transposed(given), dictionary, activations),
    )


def _one_sided_residual(given: Example, factor: Floats, other: Floats) -> float:
    rates = factor @ other.T
    ratio = np.divide(given.X, rates, out=np.zeros_like(rates), where=given.X > 0)
    exposure = given.observed.astype(float) @ other
    totals = given.X.sum(axis=1, keepdims=True)
    share = factor * exposure / np.where(totals > 0, totals, given.X.sum() / len(given.X))
    gradient = 1 - np.divide(ratio @ other, exposure, out=np.ones_like(exposure), where=exposure > 0)
    return float(np.abs(np.minimum(share, gradient))[exposure > 0].max())
