"""How much the marginal log-likelihood grew, and may grow yet, estimated from the draws that an EM algorithm makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.engines.blocks import Block
from partwise.gamma_poisson.inference.gibbs import Averages
from partwise.gamma_poisson.model import GammaPoissonModel
from partwise.passes.side import Side, own_exposure

Floats = NDArray[np.float64]


def expected_gain(
    data: SparseData,
    engine: Engine,
    old: GammaPoissonModel,
    new: GammaPoissonModel,
    averages: Averages,
) -> float:
    """E[log p(C | new) - log p(C | old)] with C averaged over the draws of ``averages`` (GaP, Eq. 43-44).

    With draws under ``old`` it is at most log p(X | new) - log p(X | old), with draws under ``new`` at least. Single
    draws of the sample counts are needed only where shapes changed.
    """
    feature_counts, reads = averages.feature_counts, [averages.sample_counts, *averages.totals]
    held = (feature_counts > 0) & (new.dictionary > 0) & (old.dictionary > 0)
    ratio = np.log(np.divide(new.dictionary, old.dictionary, out=np.ones_like(held, dtype=np.float64), where=held))
    # Dictionaries are needed only where cells are missing: otherwise their sums are enough.
    needed = slice(None) if data.n_missing else slice(0)
    priors = []
    for model in (old, new):
        priors += [model.dictionary[needed], model.dictionary.sum(axis=0), model.shape, model.rate]
    of_samples, _ = Side(data, engine).map_rows(_gain_of_rows, *priors, reads=reads)
    return float(np.sum(feature_counts * ratio)) + float(of_samples)


def _gain_of_rows(block: Block, sample_counts: Floats, *rest: Any) -> float:
    totals, old, new = rest[:-8], rest[-8:-4], rest[-4:]
    gain = 0.0
    for sign, (dictionary, sums, shape, rate) in ((-1.0, old), (1.0, new)):
        logs = np.log(rate + own_exposure(block, dictionary, sums))
        gain -= sign * float(np.sum((shape + sample_counts[block.rows]) * logs))
        if totals:
            drawn = 0.0
            for draw in totals:
                drawn += float(gammaln(shape + draw[block.rows]).sum())
            gain += sign * (drawn / len(totals) + block.n_rows * float(np.sum(shape * np.log(rate) - gammaln(shape))))
    return gain


@dataclass
class GainLedger:
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


@dataclass
class Drift:
    """What a whole EM step would still gain, and what noise in its draws would cost, both in nats.

    Two chains that know nothing of each other give the statistic s of the last dictionary twice: s + d + e and
    s + d + e', with the same drift d. To second order an EM step gains Σ d² / 2s, of which Σ (d + e)(d + e') / 2s is an
    unbiased estimate, and noise e costs Σ e² / 2s, of which Σ (e - e')² / 4s is one. ``error`` is that of ``gain``.
    """

    gain: float = 0.0
    variance: float = 0.0
    error: float = 0.0
    noise: float = 0.0
    latest_noise: float = 0.0
    n_seen: int = 0

    def add(self, statistic: Floats, left: Floats, right: Floats, memory: int) -> None:
        """Take in the averages of the two chains over an iteration; running means go back ``memory`` iterations."""
        inverse = np.divide(0.5, statistic, out=np.zeros_like(statistic), where=statistic > 0)
        gain = float(np.sum((left - statistic) * (right - statistic) * inverse))
        # The mean of both chains is used, whose noise is half of that of each.
        self.latest_noise = float(np.sum(np.square(left - right) * inverse)) / 4.0
        self.n_seen += 1
        weight = 1.0 / min(self.n_seen, memory)
        surprise = gain - self.gain
        self.gain += weight * surprise
        self.variance = (1.0 - weight) * (self.variance + weight * surprise**2)
        self.error = float(np.sqrt(self.variance / max(min(self.n_seen, memory) - 1, 1)))
        self.noise += weight * (self.latest_noise - self.noise)

    def averaged(self, present: int) -> int:
        """Iterations to average over: more while noise costs more than a step gains, fewer if it clearly does not."""
        if self.gain < self.noise / present:
            return present + 1
        if self.gain - 2.0 * self.error > 2.0 * self.noise / present:
            return max(int(0.9 * present), 1)
        return present
