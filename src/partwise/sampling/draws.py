"""What samplers keep of each draw, and the type of the labels that they draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from partwise.kernels.arrays import Floats


def label_type(n_labels: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that tells this many labels apart: labels are what a sweep reads most."""
    if n_labels <= 2**8:
        return np.uint8
    return np.uint16 if n_labels <= 2**16 else np.uint32


@dataclass
class KeptDraws:
    """A few numbers of each draw that is kept; families add sums over draws.

    Components have no identity between chains: compare chains by numbers without labels, and average factors over one
    chain only.

    Attributes
    ----------
    numbers
        Names x chains x draws, NaN where nothing was kept.
    n_kept
        Draws of each chain so far.
    """

    names: ClassVar[tuple[str, ...]] = ("log_joint", "n_active")
    """The numbers; `log_joint`, the logarithm of p(X, labels), is always among them."""
    discrete: ClassVar[tuple[str, ...]] = ("n_active",)
    """Numbers that take few values, so that ranks of draws say little about the agreement of chains."""
    untraced: ClassVar[tuple[str, ...]] = ()
    """Numbers that the trace of a fit leaves out."""

    numbers: Floats
    n_kept: int

    @classmethod
    def no_numbers(cls, n_chains: int, n_draws: int) -> Floats:
        """Storage for the numbers of this many draws."""
        return np.full((len(cls.names), n_chains, n_draws), np.nan)

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return int(self.numbers.shape[1])

    def record(self, **numbers: Any) -> None:
        """Take in one draw: a number of each name, or one per chain."""
        for name, values in numbers.items():
            self.numbers[self.names.index(name), :, self.n_kept] = values
        self.n_kept += 1

    def of_chains(self) -> dict[str, Floats]:
        """Numbers of the draws that were kept, chains x draws."""
        return {name: own[:, : self.n_kept].copy() for name, own in zip(self.names, self.numbers, strict=True)}

    def last(self) -> dict[str, float]:
        """Means over chains of the last draw, for the trace."""
        means = {name: float(own[:, -1].mean()) for name, own in self.of_chains().items()}
        return {name: mean for name, mean in means.items() if name not in self.untraced}

    @property
    def likeliest(self) -> int:
        """The chain with the highest mean log p(X, labels)."""
        return int(np.argmax(self.of_chains()["log_joint"].mean(axis=1)))
