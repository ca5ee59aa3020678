"""The Monte Carlo E-step: a Gibbs chain for given parameters, averages over its draws, and the gain of an update."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import gammaln

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made
from partwise.gamma_poisson.inference.sweeps import GibbsSweeps
from partwise.gamma_poisson.inference.vem import MeanField
from partwise.gamma_poisson.model import GammaPoissonModel
from partwise.kernels.arrays import Floats
from partwise.passes.side import Side, own_exposure

# Number of draws of the sample counts that are kept separately, to estimate shapes.
_MOST_TOTALS = 8


@dataclass
class Chain:
    """The state of a Gibbs chain: the allocation totals of each sample, which may be on workers."""

    sample_counts: Any


@dataclass(frozen=True)
class Averages:
    """Means over the kept draws of a chain.

    Attributes
    ----------
    feature_counts
        Σ_n c_nfk, sampled or (Rao-Blackwellised) expected given the activations: features x parts.
    sample_counts
        c_n+k: samples x parts.
    activations
        h_nk: samples x parts; None if not requested.
    totals
        Some separate draws of the sample counts, with missing cells imputed; none if not requested.
    before
        The same over the second half of the burn-in, sampled. Nothing is estimated from these draws, so they can be
        used to judge an estimate. None without a burn-in.
    """

    feature_counts: Floats
    sample_counts: Any
    activations: Any
    totals: list[Any]
    before: Averages | None = None


@dataclass(frozen=True, eq=False)
class GibbsEStep(GibbsSweeps):
    """Sweeps of a chain over some data, and averages over its draws.

    Attributes
    ----------
    expected
        Whether the averages use expected allocations given the activations instead of sampled ones (Rao-Blackwell).
    smooth
        The same for activations, given the allocations.
    with_activations
        Whether activations are averaged, too.
    with_totals
        Whether some draws of the sample counts are kept.
    """

    expected: bool = False
    smooth: bool = False
    with_activations: bool = False
    with_totals: bool = False

    @classmethod
    def smoothed(cls, data: SparseData, engine: Engine, *, with_totals: bool = False) -> Self:
        """An E-step whose averages are conditional means, with what missing or weighted cells need."""
        needed = data.n_missing > 0 or data.weights is not None
        return cls(data, engine, expected=True, smooth=True, with_activations=needed, with_totals=with_totals)

    def run(self, key: Key, chain: Chain, model: GammaPoissonModel, *, n_draws: int, burn_in: int) -> Averages:
        """Continue the chain (in place, a warm restart), and average over the sweeps after the burn-in."""
        inverse = MeanField(self.data, self.engine).rates(model, inverse=True)
        chain.sample_counts = self.place(chain.sample_counts)
        settled = burn_in // 2
        for number in range(settled):
            self._sweep(sweep_key(key, number), chain, model, inverse)
        before = None
        if burn_in > settled:
            plain = replace(self, expected=False, smooth=True, with_activations=False)
            before = plain._averages(key, range(settled, burn_in), chain, model, inverse)
        return replace(self._averages(key, range(burn_in, burn_in + n_draws), chain, model, inverse), before=before)

    def _averages(self, key: Key, numbers: range, chain: Chain, model: GammaPoissonModel, inverse: Any) -> Averages:
        """Do the sweeps with these numbers, and average over all of them."""
        feature_counts = np.zeros_like(model.dictionary)
        sample_counts = mean_activations = None
        features, totals = Side(self.data.transposed, self.engine), []
        every = -(-len(numbers) // _MOST_TOTALS)
        for place, number in enumerate(numbers):
            at, weight = sweep_key(key, number), 1.0 / (place + 1)
            activations, drawn = self._sweep(at, chain, model, inverse)
            feature_counts += features.expected_counts(model.dictionary, activations)[0] if self.expected else drawn
            sample_counts = mean_rows(self, sample_counts, chain.sample_counts, weight)
            if self.with_activations:
                found = self._smoothed(chain, model, inverse) if self.smooth else activations
                mean_activations = mean_rows(self, mean_activations, found, weight)
            if self.with_totals and place % every == 0:
                totals.append(self._whole_totals(at, chain, model, activations, inverse))
        means: dict[str, Any] = {"sample_counts": sample_counts, "activations": mean_activations, "totals": totals}
        return Averages(feature_counts=feature_counts / len(numbers), **means)

    def _sweep(self, key: Key, chain: Chain, model: GammaPoissonModel, inverse: Any) -> tuple[Any, Floats]:
        """One sweep: activations and feature counts."""
        activations = self.activations(key, chain.sample_counts, model.shape, inverse)
        chain.sample_counts, drawn = self.allocations(key, activations, model.dictionary)
        return activations, drawn

    def _smoothed(self, chain: Chain, model: GammaPoissonModel, inverse: Any) -> Any:
        """Expected activations given the allocations of a draw."""
        rows = [chain.sample_counts, inverse]
        return self.map_rows(_smoothed, model.shape, reads=rows, makes=[Made(model.shape.shape)])[1][0]

    def _whole_totals(self, key: Key, chain: Chain, model: GammaPoissonModel, activations: Any, inverse: Any) -> Any:
        """The sample counts of a draw, including those drawn for missing cells: the totals of Eq. 22."""
        if not self.data.n_missing:
            return chain.sample_counts
        # Drawn here, from one stream.
        hidden = np.maximum(model.rate + model.dictionary.sum(axis=0) - 1.0 / np.asarray(inverse), 0.0)
        drawn = key.for_stage("totals").generator().poisson(np.asarray(activations) * hidden)
        return np.asarray(chain.sample_counts) + drawn


def mean_rows(samples: Side, mean: Any, value: Any, weight: float) -> Any:
    """Move an array with one row per sample a share of the way towards another; None becomes the other."""
    if mean is None:
        return value
    return samples.map_rows(_mean_rows, weight, reads=[mean, value], makes=[Made(value.shape[1:])])[1][0]


def _mean_rows(block: Block, mean: Floats, value: Floats, out: Floats, weight: float) -> None:
    rows = block.rows
    out[rows] = mean[rows] + weight * (value[rows] - mean[rows])


def _smoothed(block: Block, sample_counts: Floats, inverse: Floats, out: Floats, shape: Floats) -> None:
    out[block.rows] = (shape + sample_counts[block.rows]) * block.own(inverse)


def sweep_key(key: Key, number: int) -> Key:
    """The key of a sweep inside an iteration. No two sweeps of a fit share a key."""
    return key.at((key.iteration << 24) + number)


def expected_gain(
    data: SparseData, engine: Engine, old: GammaPoissonModel, new: GammaPoissonModel, averages: Averages
) -> float:
    """E[log p(C | new) - log p(C | old)] with C averaged over the draws of ``averages`` (GaP, Eq. 43-44).

    With draws under ``old`` it is at most log p(X | new) - log p(X | old), with draws under ``new`` at least. Separate
    draws of the sample counts are needed only if shapes changed.
    """
    feature_counts, reads = averages.feature_counts, [averages.sample_counts, *averages.totals]
    held = (feature_counts > 0) & (new.dictionary > 0) & (old.dictionary > 0)
    ratio = np.log(np.divide(new.dictionary, old.dictionary, out=np.ones_like(held, dtype=np.float64), where=held))
    # Dictionaries are needed only if cells are missing: otherwise their sums are enough.
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
    """The log-likelihood gained since the start, and its error.

    The gain of an update lies between its expectations under the old and under the new model. Their mean is the
    estimate, which is right up to third order. Half their distance, which includes Monte Carlo noise, is the error. The
    draws must differ from those that made the update, which would flatter it.
    """

    objective: float
    variance: float = 0.0
    lower: float = np.nan

    def close(self, upper: float) -> None:
        """Add the last update, now that its upper value is known."""
        if not np.isnan(self.lower):
            self.objective += 0.5 * (self.lower + upper)
            self.variance += (0.5 * (upper - self.lower)) ** 2

    @property
    def info(self) -> dict[str, float]:
        """What an iteration reports."""
        return {"objective": self.objective, "objective_error": float(np.sqrt(self.variance))}


@dataclass
class Drift:
    """What a whole EM step would still gain, and what noise in its draws costs, both in nats.

    Two independent chains give the statistic s of the last dictionary twice: s + d + e and s + d + e', with the same
    drift d. To second order, an EM step gains Σ d² / 2s, and Σ (d + e)(d + e') / 2s is an unbiased estimate of it.
    Noise e costs Σ e² / 2s, estimated by Σ (e - e')² / 4s. ``error`` is the error of ``gain``.
    """

    gain: float = 0.0
    variance: float = 0.0
    error: float = 0.0
    noise: float = 0.0
    latest_noise: float = 0.0
    n_seen: int = 0

    def add(self, statistic: Floats, left: Floats, right: Floats, memory: int) -> None:
        """Add the averages of the two chains over an iteration; running means go back ``memory`` iterations."""
        inverse = np.divide(0.5, statistic, out=np.zeros_like(statistic), where=statistic > 0)
        gain = float(np.sum((left - statistic) * (right - statistic) * inverse))
        # The mean of both chains is used; its noise is half that of each.
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
