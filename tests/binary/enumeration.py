"""Everything exact about 3 x 3 matrices: all labels are listed, with their probabilities."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from partwise.binary.model import BinaryModel


class Exact(NamedTuple):
    """log p(X), and posterior mean and standard deviation of P(x = 1) of every cell, samples x features."""

    log_evidence: float
    mean: np.ndarray
    std: np.ndarray


def enumerate_posterior(model: BinaryModel, X: np.ndarray) -> Exact:
    """By listing all labels; NaN is missing. Samples have the activations' prior, features the dictionary's."""
    if model.kind == "dir-beta":
        mirrored = replace(model, kind="beta-dir")
        exact = enumerate_posterior(mirrored, X.T)
        return Exact(exact.log_evidence, exact.mean.T, exact.std.T)
    return _pairs(model, X) if model.kind == "dir-dir" else _single(model, X)


def _single(model: BinaryModel, X: np.ndarray) -> Exact:
    cells = np.argwhere(~np.isnan(X))
    labels = np.array(list(itertools.product(range(model.n_components), repeat=len(cells))))
    seen = X[cells[:, 0], cells[:, 1]]
    size = (labels.shape[0], model.n_components)
    priors = model.priors
    ones = priors.alpha + _counts(labels[:, seen == 1], cells[seen == 1, 0], X.shape[0], size)
    zeros = priors.beta + _counts(labels[:, seen == 0], cells[seen == 0, 0], X.shape[0], size)
    columns = _counts(labels, cells[:, 1], X.shape[1], size)
    beta = gammaln(ones) + gammaln(zeros) - gammaln(ones + zeros)
    constant = gammaln(priors.alpha) + gammaln(priors.beta) - gammaln(priors.alpha + priors.beta)
    logs = (beta - constant).sum(axis=(1, 2)) + _log_dirichlet(columns, model.priors.concentration)
    h = ones / (ones + zeros)
    h_pairs = np.einsum("snk,snl->snkl", h, h)
    for k in range(model.n_components):
        h_pairs[..., k, k] += h[..., k] * (1 - h[..., k]) / (ones + zeros + 1)[..., k]
    return _average(logs, h, h_pairs, *_dirichlet_moments(columns + model.priors.concentration))


def _pairs(model: BinaryModel, X: np.ndarray) -> Exact:
    cells = np.argwhere(~np.isnan(X))
    every = list(itertools.product(range(model.n_components), repeat=2))
    options = [[pair for pair in every if (pair[0] == pair[1]) == bool(X[n, f])] for n, f in cells]
    labels = np.array(list(itertools.product(*options)))
    size = (labels.shape[0], model.n_components)
    columns = _counts(labels[..., 0], cells[:, 1], X.shape[1], size)
    rows = _counts(labels[..., 1], cells[:, 0], X.shape[0], size)
    logs = _log_dirichlet(rows, model.priors.activation_concentration) + _log_dirichlet(
        columns, model.priors.concentration
    )
    h = _dirichlet_moments(rows + model.priors.activation_concentration)
    return _average(logs, *h, *_dirichlet_moments(columns + model.priors.concentration))


def _counts(labels: np.ndarray, positions: np.ndarray, n_positions: int, size: tuple[int, int]) -> np.ndarray:
    """Listed labels x positions (rows or columns) x components."""
    n_listed, n_components = size
    counts = np.zeros((n_listed, n_positions, n_components))
    for cell, position in enumerate(positions):
        counts[np.arange(n_listed), position, labels[:, cell]] += 1
    return counts


def log_row_evidence_eq_110(ones: np.ndarray, zeros: np.ndarray, concentration: np.ndarray) -> float:
    """log p(v_n | Z_n) of Dir-Dir by Eq. 110, its second Γ standing outside the product over k."""
    total = 0.0
    for powers in itertools.product(*(range(int(count) + 1) for count in zeros)):
        j = np.array(powers)
        sign = (-1.0) ** j.sum()
        binomials = gammaln(zeros + 1) - gammaln(j + 1) - gammaln(zeros - j + 1)
        parameters = concentration + ones + j
        total += sign * np.exp(binomials.sum() + gammaln(parameters).sum() - gammaln(parameters.sum()))
    return float(np.log(total) + gammaln(concentration.sum()) - gammaln(concentration).sum())


def single_label_log_evidence(model: BinaryModel, X: np.ndarray) -> float:
    """log p(X) of Dir-Dir by the paper's other route: labels z alone, rows by Eq. 110."""
    cells = np.argwhere(~np.isnan(X))
    logs = []
    for labels in itertools.product(range(model.n_components), repeat=len(cells)):
        counts = np.zeros((X.shape[0], model.n_components, 2))
        columns = np.zeros((1, X.shape[1], model.n_components))
        for (n, f), k in zip(cells, labels, strict=True):
            counts[n, k, int(X[n, f])] += 1
            columns[0, f, k] += 1
        rows = [log_row_evidence_eq_110(row[:, 1], row[:, 0], model.priors.activation_concentration) for row in counts]
        logs.append(sum(rows) + _log_dirichlet(columns, model.priors.concentration)[0])
    return float(np.logaddexp.reduce(logs))


def _dirichlet_moments(parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = parameters.sum(axis=-1)
    pairs = np.einsum("sfk,sfl->sfkl", parameters, parameters)
    for k in range(parameters.shape[-1]):
        pairs[..., k, k] += parameters[..., k]
    return parameters / total[..., None], pairs / (total * (total + 1))[..., None, None]


def _log_dirichlet(counts: np.ndarray, concentration: np.ndarray) -> np.ndarray:
    constant = gammaln(concentration.sum()) - gammaln(concentration).sum()
    terms = gammaln(concentration + counts).sum(axis=-1) - gammaln((concentration + counts).sum(axis=-1))
    return (constant + terms).sum(axis=-1)


def _average(logs: np.ndarray, h: np.ndarray, h_pairs: np.ndarray, w: np.ndarray, w_pairs: np.ndarray) -> Exact:
    evidence = np.logaddexp.reduce(logs)
    weights = np.exp(logs - evidence)
    mean = np.einsum("s,snk,sfk->nf", weights, h, w, optimize=True)
    square = np.einsum("s,snkl,sfkl->nf", weights, h_pairs, w_pairs, optimize=True)
    return Exact(float(evidence), mean, np.sqrt(square - mean**2))
