"""How long everything is run: as in Section 6.2 of the paper, or just long enough to see that it works."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Protocol:
    """Lengths of runs.

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
        Numbers of components of bICA and c-bICA.
    fewer
        Numbers of components of logistic PCA, LDA and Poisson factorization.
    sizes
        Rows and columns of the matrices that sensitivity to the concentration is tried on.
    concentrations
        The concentrations tried.
    """

    n_components: int
    burn_in: int
    n_draws: int
    thin: int
    max_iter: int
    n_splits: int
    n_repeats: int
    datasets: Sequence[str]
    few: Sequence[int]
    fewer: Sequence[int]
    sizes: Sequence[int]
    concentrations: Sequence[float]


# 4,000 sweeps of burn-in and 1,000 kept, of which every tenth is averaged over: the nine between tell nothing new.
FULL = Protocol(
    n_components=100,
    burn_in=4000,
    n_draws=100,
    thin=10,
    max_iter=500,
    n_splits=10,
    n_repeats=3,
    datasets=("animals", "parliament", "paleo", "lastfm", "unvotes"),
    few=(2, 3, 4, 5, 6, 7, 8),
    fewer=(2, 3, 4),
    sizes=(100, 200, 400),
    concentrations=(0.1, 0.3, 1.0, 3.0, 10.0),
)
QUICK = Protocol(
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


def protocol(quick: bool) -> Protocol:
    """The long or the short one."""
    return QUICK if quick else FULL
