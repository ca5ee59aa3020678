"""How much the marginal log-likelihood grew, estimated from the very draws that an EM algorithm makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.engines.blocks import Block
from partwise.gamma_poisson.model import GammaPoissonModel
from partwise.passes.side import Side, own_exposure

Floats = NDArray[np.float64]


def expected_gain(
    data: SparseData,
    engine: Engine,
    old: GammaPoissonModel,
    new: GammaPoissonModel,
    feature_counts: Floats,
    sample_counts: Any,
    totals: Sequence[Any] = (),
) -> float:
    """E[log p(C | new) - log p(C | old)] with C averaged over some draws (GaP, Eq. 43-44).

    With draws under ``old`` it is at most log p(X | new) - log p(X | old), with draws under ``new`` at least.

    Parameters
    ----------
    feature_counts, sample_counts
        Averages of the allocation totals over the draws.
    totals
        Single draws of the sample counts; needed only where shapes changed.
    """
    held = (feature_counts > 0) & (new.dictionary > 0) & (old.dictionary > 0)
    ratio = np.log(np.divide(new.dictionary, old.dictionary, out=np.ones_like(held, dtype=np.float64), where=held))
    # Dictionaries are needed only where cells are missing: otherwise their sums are enough.
    dictionaries = [model.dictionary if data.n_missing else model.dictionary[:0] for model in (old, new)]
    priors = tuple((model.dictionary.sum(axis=0), model.shape, model.rate) for model in (old, new))
    of_samples, _ = Side(data, engine).map_rows(_gain_of_rows, *dictionaries, priors, reads=[sample_counts, *totals])
    return float(np.sum(feature_counts * ratio)) + float(of_samples)


def _gain_of_rows(block: Block, sample_counts: Floats, *rest: Any) -> float:
    *totals, old_dictionary, new_dictionary, priors = rest
    gain = 0.0
    for sign, dictionary, prior in zip((-1.0, 1.0), (old_dictionary, new_dictionary), priors, strict=True):
        sums, shape, rate = prior
        logs = np.log(rate + own_exposure(block, dictionary, sums))
        gain -= sign * float(np.sum((shape + sample_counts[block.rows]) * logs))
        if totals:
            drawn = sum(float(gammaln(shape + draw[block.rows]).sum()) for draw in totals) / len(totals)
            gain += sign * (drawn + block.n_rows * float(np.sum(shape * np.log(rate) - gammaln(shape))))
    return gain


@dataclass
class Ledger:
    """The log-likelihood that was gained since the start, and how well it is known.

    The gain of an update lies between its expectation under the old and under the new model. Their mean is taken, which
    is right up to third order, and half their distance, in which Monte Carlo noise shows, for its error. The draws must
    be others than those that the update was made from, which would flatter it.
    """

    objective: float
    variance: float = 0.0
    lower: float = np.nan

    def close(self, upper: float) -> None:
        """Book the last update, whose upper value has become known."""
        if not np.isnan(self.lower):
            self.objective += 0.5 * (self.lower + upper)
            self.variance += (0.5 * (upper - self.lower)) ** 2

    @property
    def info(self) -> dict[str, float]:
        """What an iteration reports."""
        return {"objective": self.objective, "objective_error": float(np.sqrt(self.variance))}
