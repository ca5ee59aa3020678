"""What samplers keep of each draw, the data type of labels, and weights of chains that have not mixed.

Also, an exact Gibbs step for the concentrations of Dirichlet (and beta) priors, given counts of labels.

Given the labels, a Dirichlet factor contributes Π_k Γ(α_k + count_k) / Γ(α_+ + size) in each row, up to a constant.
These are products of rising factors, so it is enough to know how many counts exceed 0, 1, 2 and so on.

Counts in a row behave as if its labels had been seated in a Chinese restaurant: label i + 1 opens a table with
probability α / (α + i). Given the number of tables, and -Σ log q with q ~ Beta(α_+, size of the row), a concentration
with a gamma prior is gamma distributed (Escobar & West 1995; Teh et al. 2006). Tables that open at i are binomial over
the rows that exceed i, and -log q is a sum of exponentials with rates α_+ + i, so sums over rows are gamma distributed.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from partwise.kernels.arrays import Floats
from partwise.kernels.sums import count_values

# Draws at once. Ctrl-C takes effect between them.
_ENTRIES = 2**20


def label_type(n_labels: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type for this many labels: a sweep mostly reads labels."""
    if n_labels <= 2**8:
        return np.uint8
    return np.uint16 if n_labels <= 2**16 else np.uint32


@dataclass
class KeptDraws:
    """A few numbers for each kept draw; families add sums over draws.

    Parts have no identity between chains. Compare chains by numbers without labels, and average factors within one
    chain only.

    Attributes
    ----------
    numbers
        Names x chains x draws, NaN where no draw was kept.
    n_kept
        Number of draws of each chain so far.
    """

    names: ClassVar[tuple[str, ...]] = ("log_joint", "n_active")
    """The numbers; `log_joint`, the logarithm of p(X, labels), is always among them."""
    discrete: ClassVar[tuple[str, ...]] = ("n_active",)
    """Numbers with few distinct values, so that the order of draws says little about the agreement of chains."""
    untraced: ClassVar[tuple[str, ...]] = ()
    """Numbers that are left out of the trace of a fit."""

    numbers: Floats
    n_kept: int

    @classmethod
    def no_numbers(cls, n_chains: int, n_draws: int) -> Floats:
        """Allocate storage for the numbers of this many draws."""
        return np.full((len(cls.names), n_chains, n_draws), np.nan)

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return int(self.numbers.shape[1])

    def record(self, **numbers: Any) -> None:
        """Add one draw: for each name, one number or one per chain."""
        for name, values in numbers.items():
            self.numbers[self.names.index(name), :, self.n_kept] = values
        self.n_kept += 1

    def of_chains(self) -> dict[str, Floats]:
        """Numbers of the kept draws, chains x draws."""
        return {name: own[:, : self.n_kept].copy() for name, own in zip(self.names, self.numbers, strict=True)}

    def last(self) -> dict[str, float]:
        """Means over chains for the last draw, for the trace."""
        means = {name: float(own[:, -1].mean()) for name, own in self.of_chains().items()}
        return {name: mean for name, mean in means.items() if name not in self.untraced}

    @property
    def likeliest(self) -> int:
        """The chain with the highest mean log p(X, labels)."""
        return int(np.argmax(self.of_chains()["log_joint"].mean(axis=1)))


def exceeding(
    counts: NDArray[np.integer], size: int | None = None, parts: tuple[int, int] | None = None
) -> NDArray[np.int64]:
    """Number of rows with a count above i (parts x i), for rows x parts counts.

    Parameters
    ----------
    counts
        Rows x parts.
    size
        Number of values of i; None = as many as the largest count needs.
    parts
        First part, and the one after the last; None = all parts.

    Examples
    --------
    >>> exceeding(np.array([[2, 0], [1, 3]]))
    array([[2, 1, 0],
           [1, 1, 1]])
    """
    first, last = parts or (0, counts.shape[1])
    size = int(counts[:, first:last].max(initial=0)) if size is None else size
    found = np.zeros((last - first, size + 1), np.int64)
    count_values(np.ascontiguousarray(counts, np.int32), first, found)
    np.cumsum(found[:, ::-1], axis=1, out=found[:, ::-1])
    return found[:, 1:]


def tables(generator: np.random.Generator, above: NDArray[np.int64], concentration: Floats) -> Floats:
    """Number of tables opened, for each part."""
    found, some = np.zeros(concentration.size), max(1, _ENTRIES // max(above.shape[1], 1))
    for start in range(0, concentration.size, some):
        # Few parts have a large count: the others need no draw there.
        components, sizes = np.nonzero(above[start : start + some])
        components += start
        base = concentration[components]
        drawn = generator.binomial(above[components, sizes], base / (base + sizes))
        found += np.bincount(components, drawn, minlength=concentration.size)
    return found


def waits(generator: np.random.Generator, above: NDArray[np.int64], concentration: Floats) -> Floats:
    """-Σ over rows of log q, for each row of ``above``."""
    rates = concentration[:, None] + np.arange(above.shape[1])
    return np.asarray((generator.standard_gamma(above) / rates).sum(axis=1))


# EM steps of stacking.
_STEPS = 100


def stacking_weights(left_out: Floats) -> Floats:
    """Weights with sum 1 under which a mixture of predictions best predicts unseen data.

    Stacking of predictive distributions (Yao, Vehtari & Gelman 2022): the weights maximise Σ_i log Σ_g w_g p_gi. A few
    EM steps from equal weights do this, so weights stay similar if the data say little.

    Parameters
    ----------
    left_out
        Predictions x cells: the probability that each prediction gives to the value of a cell, with the cell left out.

    Examples
    --------
    >>> stacking_weights(np.array([[0.9, 0.8, 0.9], [0.5, 0.6, 0.5]])).round(2).tolist()
    [1.0, 0.0]
    """
    weights = np.full(len(left_out), 1.0 / len(left_out))
    if left_out.shape[1] == 0:
        return weights
    for _ in range(_STEPS):
        shares = weights[:, None] * left_out
        shares /= shares.sum(axis=0)
        weights = shares.mean(axis=1)
    return np.asarray(weights / weights.sum())
