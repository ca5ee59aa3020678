"""The methods that the paper compares, with its settings, as functions from bits to probabilities of all cells."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from partwise.binary.estimator import BinaryNMF
from partwise.binary.logistic_pca import LogisticPCA
from partwise.poisson.estimator import PoissonNMF
from partwise.reproduce.nbmf._data import Floats
from partwise.reproduce.nbmf._protocol import Protocol

# The R package logisticPCA stops at this change of the mean deviance; the authors gave it four times the iterations.
_LOGISTIC_TOL, _LOGISTIC_FACTOR = 1e-5, 4


class Method(NamedTuple):
    """A name, and what it predicts from bits with NaN and a seed."""

    name: str
    predict: Callable[[Floats, int], Floats]


def beta_dir_gs(protocol: Protocol, seed: int, **changes: Any) -> BinaryNMF:
    """Beta-Dir GS: alpha = beta = 1, gamma_k = 1/K, one chain."""
    return BinaryNMF(protocol.n_components, **{**_gibbs(protocol, seed), **changes})


def dir_dir_gs(protocol: Protocol, seed: int, **changes: Any) -> BinaryNMF:
    """Dir-Dir GS with the paper's eta_k = 1, and the start that the authors' code has: ten parts of a variational fit.

    The text says that labels start at random, from where chains take thousands of sweeps to get as far (see the page on
    the paper).
    """
    paper = {"model": "dir-dir", "activation_concentration": 1.0, "init": "vb"}
    return BinaryNMF(protocol.n_components, **{**_gibbs(protocol, seed), **paper, **changes})


def _gibbs(protocol: Protocol, seed: int) -> dict[str, Any]:
    return {
        "burn_in": protocol.burn_in,
        "n_draws": protocol.n_draws,
        "thin": protocol.thin,
        "n_chains": 1,
        "random_state": seed,
        "progress": False,
    }


def beta_dir_vb(protocol: Protocol, seed: int, **changes: Any) -> BinaryNMF:
    """Beta-Dir VB: CVB0 with gamma_k = 1/K from hard random labels."""
    settings = {"n_components": protocol.n_components, "inference": "cvb0", "max_iter": protocol.max_iter}
    return BinaryNMF(**{**settings, "random_state": seed, "progress": False, **changes})


def collapsed_bica(n_components: int, protocol: Protocol, seed: int, **changes: Any) -> BinaryNMF:
    """c-bICA: CVB0 with gamma_k = 1."""
    return beta_dir_vb(protocol, seed, n_components=n_components, nonparametric=False, **changes)


def bica(n_components: int, protocol: Protocol, seed: int, **changes: Any) -> BinaryNMF:
    """bICA: mean-field variational Bayes with gamma_k = 1."""
    return beta_dir_vb(protocol, seed, inference="vb", n_components=n_components, nonparametric=False, **changes)


def logistic_pca(n_components: int, protocol: Protocol, seed: int, *, penalty: float = 0.0) -> LogisticPCA:
    """logPCA: maximum likelihood as published, or with our penalty."""
    return LogisticPCA(
        n_components,
        penalty=penalty,
        tol=_LOGISTIC_TOL,
        max_iter=_LOGISTIC_FACTOR * protocol.max_iter,
        random_state=seed,
        progress=False,
    )


def gibbs_methods(protocol: Protocol) -> list[Method]:
    """The samplers of the paper, and Dir-Dir with a second concentration that predicts."""
    return [
        Method("Beta-Dir GS", _fitted(partial(beta_dir_gs, protocol))),
        Method("Dir-Dir GS, η = 1", _fitted(partial(dir_dir_gs, protocol))),
    ]


def extra_gibbs_methods(protocol: Protocol) -> list[Method]:
    """Samplers that the paper does not have: another second concentration, and the mirror image of Beta-Dir."""
    return [
        Method("Dir-Dir GS, η = 1/K", _fitted(partial(dir_dir_gs, protocol, activation_concentration=None))),
        Method("Dir-Beta GS", _fitted(partial(beta_dir_gs, protocol, model="dir-beta"))),
    ]


def variational_methods(protocol: Protocol) -> list[Method]:
    """Beta-Dir VB, c-bICA and bICA."""
    return [
        Method("Beta-Dir VB", _fitted(partial(beta_dir_vb, protocol))),
        *(Method(f"c-bICA-{k}", _fitted(partial(collapsed_bica, k, protocol))) for k in protocol.few),
        *(Method(f"bICA-{k}", _fitted(partial(bica, k, protocol))) for k in protocol.few),
    ]


def baselines(protocol: Protocol) -> list[Method]:
    """Logistic PCA with and without a penalty, LDA, Poisson factorization, and one probability for all cells."""
    return [
        *(Method(f"logPCA-{k}", _fitted(partial(logistic_pca, k, protocol))) for k in protocol.fewer),
        *(
            Method(f"logPCA-{k}, penalty", _fitted(partial(logistic_pca, k, protocol, penalty=1.0)))
            for k in protocol.fewer
        ),
        *(Method(f"LDA-{k}", partial(lda_probabilities, k)) for k in protocol.fewer),
        *(Method(f"PoissonNMF-{k}", partial(poisson, k)) for k in protocol.fewer),
        Method("constant", lambda train, _seed: np.full(train.shape, np.nanmean(train))),
    ]


def _fitted(make: Callable[[int], Any]) -> Callable[[Floats, int], Floats]:
    def predict(train: Floats, seed: int) -> Floats:
        probabilities: Floats = make(seed).fit(train).predict_proba()
        return probabilities

    return predict


def poisson(n_components: int, train: Floats, seed: int) -> Floats:
    """Poisson factorization of bits: a cell is one if its count is not zero."""
    model = PoissonNMF(n_components, random_state=seed, progress=False)
    rates: Floats = model.inverse_transform(model.fit_transform(train))
    return -np.expm1(-rates)


def lda_shares(n_components: int, train: Floats, seed: int) -> Floats:
    """Shares of the features in each sample by LDA, to which a missing cell is a zero."""
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(n_components, max_iter=50, random_state=seed)
    topics = model.fit_transform(np.nan_to_num(train))
    shares: Floats = topics @ (model.components_ / model.components_.sum(axis=1, keepdims=True))
    return shares


def lda_probabilities(n_components: int, train: Floats, seed: int) -> Floats:
    """LDA has shares, not probabilities: they are scaled so that as many ones are expected as a sample shows."""
    shares = lda_shares(n_components, train, seed)
    expected = np.sum(shares * ~np.isnan(train), axis=1)
    length = np.nansum(train, axis=1) / np.maximum(expected, 1e-12)
    probabilities: Floats = -np.expm1(-length[:, None] * shares)
    return probabilities
