"""The methods that the paper compares, as functions from bits to probabilities of all cells, and how long they run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from partwise.binary.estimator import BinaryNMF
from partwise.binary.logistic_pca import LogisticPCA
from partwise.kernels.arrays import Floats
from partwise.poisson.estimator import PoissonNMF


@dataclass(frozen=True, kw_only=True)
class RunLengths:
    """Lengths of runs; the defaults are the paper's.

    Attributes
    ----------
    n_components
        Of the nonparametric methods.
    burn_in, n_draws, thin
        Sweeps of a Gibbs sampler: thrown away, kept, and for each that is kept.
    max_iter
        Iterations of the variational methods.
    n_splits
        Repetitions of the prediction experiment.
    n_repeats
        Repetitions of the others.
    datasets
        Data of the prediction experiment, smallest first.
    few
        Choices of K for bICA and c-bICA.
    fewer
        Choices of K for logistic PCA, LDA and Poisson factorization.
    sizes
        Rows and columns of the matrices that sensitivity to the concentration is tried on.
    concentrations
        The concentrations tried.
    """

    n_components: int = 100
    # 4,000 sweeps of burn-in and 1,000 kept, of which every tenth is averaged over: the nine between tell nothing new.
    burn_in: int = 4000
    n_draws: int = 100
    thin: int = 10
    max_iter: int = 500
    n_splits: int = 10
    n_repeats: int = 3
    datasets: Sequence[str] = ("animals", "parliament", "paleo", "lastfm", "unvotes")
    few: Sequence[int] = (2, 3, 4, 5, 6, 7, 8)
    fewer: Sequence[int] = (2, 3, 4)
    sizes: Sequence[int] = (100, 200, 400)
    concentrations: Sequence[float] = (0.1, 0.3, 1.0, 3.0, 10.0)


FULL = RunLengths()
QUICK = RunLengths(
    n_components=20,
    burn_in=60,
    n_draws=10,
    thin=2,
    max_iter=40,
    n_splits=2,
    n_repeats=1,
    datasets=("animals", "parliament"),
    few=(2, 5),
    fewer=(2,),
    sizes=(60,),
    concentrations=(0.1, 1.0, 10.0),
)


def run_lengths(quick: bool) -> RunLengths:
    """The short or the long ones."""
    return QUICK if quick else FULL


# The R package logisticPCA stops at this change of the mean deviance; the authors gave it four times the iterations.
_LOGISTIC_TOL, _LOGISTIC_FACTOR = 1e-5, 4


Prediction = Callable[[Floats, int], Floats]
"""Probabilities of all cells, from bits with NaN and a seed."""


def beta_dir_gs(lengths: RunLengths, seed: int, **changes: Any) -> BinaryNMF:
    """Beta-Dir GS: alpha = beta = 1, gamma_k = 1/K, one chain."""
    return BinaryNMF.preset("paper", **{**_gibbs(lengths, seed), **changes})


def dir_dir_gs(lengths: RunLengths, seed: int, **changes: Any) -> BinaryNMF:
    """Dir-Dir GS with the paper's eta_k = 1, and the start that the authors' code has: ten parts of a variational fit.

    The text says that labels start at random, from where chains take thousands of sweeps to get as far (see the page on
    the paper).
    """
    return BinaryNMF.preset("paper", **{**_gibbs(lengths, seed), "model": "dir-dir", "init": "vb", **changes})


def _gibbs(lengths: RunLengths, seed: int) -> dict[str, Any]:
    named = {name: getattr(lengths, name) for name in ("n_components", "burn_in", "n_draws", "thin")}
    return {**named, "random_state": seed, "progress": False}


def beta_dir_vb(lengths: RunLengths, seed: int, **changes: Any) -> BinaryNMF:
    """Beta-Dir VB: CVB0 with gamma_k = 1/K from hard random labels."""
    settings = {"n_components": lengths.n_components, "inference": "cvb0", "max_iter": lengths.max_iter}
    return BinaryNMF.preset("paper", **{**settings, "random_state": seed, "progress": False, **changes})


def collapsed_bica(n_components: int, lengths: RunLengths, seed: int, **changes: Any) -> BinaryNMF:
    """c-bICA: CVB0 with gamma_k = 1."""
    return beta_dir_vb(lengths, seed, n_components=n_components, nonparametric=False, **changes)


def bica(n_components: int, lengths: RunLengths, seed: int, **changes: Any) -> BinaryNMF:
    """bICA: mean-field variational Bayes with gamma_k = 1."""
    return beta_dir_vb(lengths, seed, inference="vb", n_components=n_components, nonparametric=False, **changes)


def logistic_pca(n_components: int, lengths: RunLengths, seed: int, *, penalty: float = 0.0) -> LogisticPCA:
    """logPCA: maximum likelihood as published, or with our penalty."""
    settings: dict[str, Any] = {"max_iter": _LOGISTIC_FACTOR * lengths.max_iter, "random_state": seed}
    return LogisticPCA(n_components, penalty=penalty, tol=_LOGISTIC_TOL, progress=False, **settings)


def gibbs_methods(lengths: RunLengths) -> dict[str, Prediction]:
    """The samplers of the paper."""
    return {"Beta-Dir GS": _fitted(beta_dir_gs, lengths), "Dir-Dir GS, η = 1": _fitted(dir_dir_gs, lengths)}


def extra_gibbs_methods(lengths: RunLengths) -> dict[str, Prediction]:
    """Samplers that the paper does not have: another second concentration, and the mirror image of Beta-Dir."""
    return {
        "Dir-Dir GS, η = 1/K": _fitted(dir_dir_gs, lengths, activation_concentration=1.0 / lengths.n_components),
        "Dir-Beta GS": _fitted(beta_dir_gs, lengths, model="dir-beta"),
    }


def variational_methods(lengths: RunLengths) -> dict[str, Prediction]:
    """Beta-Dir VB, c-bICA and bICA."""
    return {
        "Beta-Dir VB": _fitted(beta_dir_vb, lengths),
        **{f"c-bICA-{k}": _fitted(collapsed_bica, k, lengths) for k in lengths.few},
        **{f"bICA-{k}": _fitted(bica, k, lengths) for k in lengths.few},
    }


def baselines(lengths: RunLengths) -> dict[str, Prediction]:
    """Logistic PCA with and without a penalty, LDA, Poisson factorization, and one probability for all cells."""
    return {
        **{f"logPCA-{k}": _fitted(logistic_pca, k, lengths) for k in lengths.fewer},
        **{f"logPCA-{k}, penalty": _fitted(logistic_pca, k, lengths, penalty=1.0) for k in lengths.fewer},
        **{f"LDA-{k}": partial(lda_probabilities, k) for k in lengths.fewer},
        **{f"PoissonNMF-{k}": partial(poisson, k) for k in lengths.fewer},
        "constant": lambda train, _seed: np.full(train.shape, np.nanmean(train)),
    }


def _fitted(make: Callable[..., Any], *arguments: Any, **settings: Any) -> Prediction:
    """What a model predicts that is made of these arguments and a seed, and fitted."""
    return lambda train, seed: np.asarray(make(*arguments, seed, **settings).fit(train).predict_proba())


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
    return np.asarray(topics @ (model.components_ / model.components_.sum(axis=1, keepdims=True)))


def lda_probabilities(n_components: int, train: Floats, seed: int) -> Floats:
    """LDA has shares, not probabilities: they are scaled so that as many ones are expected as a sample shows."""
    shares = lda_shares(n_components, train, seed)
    expected = np.sum(shares * ~np.isnan(train), axis=1)
    length = np.nansum(train, axis=1) / np.maximum(expected, 1e-12)
    return np.asarray(-np.expm1(-length[:, None] * shares))
