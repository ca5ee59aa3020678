"""How long everything is run: as in Section 6.2 of the paper, or just long enough to see that it works."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
        Numbers of components of bICA and c-bICA.
    fewer
        Numbers of components of logistic PCA, LDA and Poisson factorization.
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
