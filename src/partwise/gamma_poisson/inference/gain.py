"""How much the marginal log-likelihood grew, estimated from the very draws that an EM algorithm makes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.gamma_poisson.model import GammaPoissonModel
from partwise.poisson.inference.passes import Side

Floats = NDArray[np.float64]


def expected_gain(
    data: SparseData,
    engine: Engine,
    old: GammaPoissonModel,
    new: GammaPoissonModel,
    feature_counts: Floats,
    sample_counts: Floats,
    totals: Floats | None = None,
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
    rates = [model.rate + Side(data, engine).exposure(model.dictionary, stay=True) for model in (old, new)]
    n_samples = data.shape[0]
    gain = float(np.sum(feature_counts * ratio))
    for sign, model, rate in zip((-1.0, 1.0), (old, new), rates, strict=True):
        posterior = model.shape + sample_counts
        if rate.shape[0] == 1:
            posterior = posterior.sum(axis=0)
        gain -= sign * float(np.sum(posterior * np.log(rate)))
        if totals is not None:
            per_draw = float(np.sum(gammaln(model.shape + totals))) / len(totals)
            prior = model.shape * np.log(model.rate) - gammaln(model.shape)
            gain += sign * (per_draw + n_samples * float(prior.sum()))
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
