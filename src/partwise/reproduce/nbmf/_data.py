"""The paper's data as samples x features, and their splits into cells to learn from and cells to predict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partwise.contract.bits import log_probability
from partwise.core.keys import Key
from partwise.datasets import data_folder, load_binary
from partwise.kernels.arrays import Bools, Floats

_SEED = 2020
_HELD_OUT = 0.25


@dataclass(frozen=True, eq=False)
class Split:
    """Bits with cells to predict.

    Attributes
    ----------
    train
        Samples x features; NaN is missing or held out.
    truth
        The same with the held-out cells.
    held_out
        Where they are.
    """

    train: Floats
    truth: Floats
    held_out: Bools

    @classmethod
    def of(cls, truth: Floats, held_out: Bools) -> Split:
        """Hide cells."""
        held_out = held_out & ~np.isnan(truth)
        return cls(np.where(held_out, np.nan, truth), truth, held_out)

    def perplexity(self, probabilities: Floats) -> float:
        """Mean negative log-likelihood of a held-out cell (Eq. 67)."""
        total = negative_log_likelihood(self.truth[self.held_out], probabilities[self.held_out])
        return total / int(self.held_out.sum())


def negative_log_likelihood(truth: Floats, probabilities: Floats) -> float:
    """Of all observed cells (Eq. 66)."""
    seen = ~np.isnan(truth)
    return -float(log_probability(probabilities[seen], truth[seen] == 1.0).sum())


def bits(name: str) -> Floats:
    """Samples x features of a data set, NaN where missing."""
    return np.asarray(load_binary(name, transpose=True).matrix, dtype=np.float64)


def random_split(truth: Floats, number: int) -> Split:
    """Each cell is held out with probability 1/4, as in the authors' scripts."""
    generator = Key(_SEED).for_stage("split").for_chain(number).generator()
    return Split.of(truth, generator.random(truth.shape) < _HELD_OUT)


def reference_split(name: str, number: int) -> Split:
    """A split that the authors' code was run on: a list of cells, features x samples."""
    truth = bits(name)
    path = data_folder() / "nbmf" / "masks" / f"{name}_mask{number}.csv.gz"
    row, column, is_test = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64, unpack=True)
    held_out = np.zeros(truth.shape, dtype=bool)
    held_out[column[is_test == 1], row[is_test == 1]] = True
    return Split.of(truth, held_out)


def feature_labels(name: str) -> list[str]:
    """Names of the features of a data set."""
    labels = load_binary(name).row_labels
    return [] if labels is None else [str(label) for label in labels]


def parties() -> list[str]:
    """The party of each member of parliament, in the order of the data."""
    path = data_folder() / "nbmf" / "parliament_labels.csv"
    return [line.split(",")[1] for line in path.read_text(encoding="utf-8").splitlines()[1:]]
