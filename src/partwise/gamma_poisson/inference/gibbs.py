"""The Monte Carlo E-step: a Gibbs chain for given parameters, and averages over its draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made
from partwise.errors import InvalidInputError
from partwise.gamma_poisson.inference.sweeps import GibbsSweeps
from partwise.gamma_poisson.inference.vem import MeanField
from partwise.gamma_poisson.model import GammaPoissonModel
from partwise.passes.side import Side

Floats = NDArray[np.float64]

# Draws of the sample counts that are kept one by one, for the estimation of shapes.
_MOST_TOTALS = 8
_MOST_LABELS = 2**31


@dataclass
class Chain:
    """Where a Gibbs chain stands: the allocation totals of each sample and, if it is collapsed, each token's label.

    Both may be on workers.
    """

    sample_counts: Any
    labels: Any = None

    @classmethod
    def start(cls, data: SparseData, n_components: int, engine: Engine, *, collapsed: bool = False) -> Chain:
        """Each sample's total spread evenly; tokens without labels, which the first sweep draws in turn."""
        counts = Side(data, engine).even_counts(n_components)
        if not collapsed:
            return cls(counts)
        if data.total > _MOST_LABELS:
            raise InvalidInputError(
                f"e_step='collapsed' keeps a label for each token, and X has {data.total:.3g} of them: use"
                " e_step='sampled' or 'rao-blackwell', whose memory does not grow with the counts."
            )
        kind = np.uint8 if n_components < 2**8 else np.uint16 if n_components < 2**16 else np.uint32
        return cls(counts, np.full(int(data.total), n_components, dtype=kind))


@dataclass(frozen=True)
class Averages:
    """Means over the kept draws of a chain.

    Attributes
    ----------
    feature_counts
        Σ_n c_nfk, sampled or (Rao-Blackwellised) expected given the activations: features x components.
    sample_counts
        c_n+k: samples x components.
    activations
        h_nk: samples x components; None if they were not asked for.
    totals
        Some draws of the sample counts one by one, missing cells imputed; none if they were not asked for.
    before
        The same over the second half of the burn-in, sampled: draws from which nothing is estimated, and by which
        therefore an estimate can be judged. None without a burn-in.
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
        Whether sampled allocations are replaced in the averages by their expectations given the activations
        (Rao-Blackwell).
    smooth
        The same for activations, given the allocations.
    with_activations
        Whether activations are averaged too.
    with_totals
        Whether some draws of the sample counts are kept.
    """

    expected: bool = False
    smooth: bool = False
    with_activations: bool = False
    with_totals: bool = False

    def run(self, key: Key, chain: Chain, model: GammaPoissonModel, *, n_draws: int, burn_in: int) -> Averages:
        """Go on with the chain, which is updated in place (warm restart), and average over what follows the burn-in."""
        inverse = MeanField(self.data, self.engine).rates(model, inverse=True)
        chain.sample_counts = self.place(chain.sample_counts)
        settled = burn_in // 2
        for number in range(settled):
            self._sweep(sweep_key(key, number), chain, model, inverse, drawing=False)
        before = None
        if burn_in > settled:
            plain = replace(self, expected=False, smooth=True, with_activations=False)
            before = plain._averages(key, range(settled, burn_in), chain, model, inverse)
        return replace(self._averages(key, range(burn_in, burn_in + n_draws), chain, model, inverse), before=before)

    def _averages(self, key: Key, numbers: range, chain: Chain, model: GammaPoissonModel, inverse: Any) -> Averages:
        """Sweeps of these numbers, and averages over all of them."""
        feature_counts = np.zeros_like(model.dictionary)
        sample_counts = mean_activations = None
        features, totals = Side(self.data.transposed, self.engine), []
        every = -(-len(numbers) // _MOST_TOTALS)
        drawing = self.expected or not self.smooth or self.data.n_missing > 0
        for place, number in enumerate(numbers):
            at, weight = sweep_key(key, number), 1.0 / (place + 1)
            activations, drawn = self._sweep(at, chain, model, inverse, drawing=drawing)
            feature_counts += features.expected_counts(model.dictionary, activations)[0] if self.expected else drawn
            sample_counts = mean_rows(self, sample_counts, chain.sample_counts, weight)
            if self.with_activations:
                found = self._smoothed(chain, model, inverse) if self.smooth else activations
                mean_activations = mean_rows(self, mean_activations, found, weight)
            if self.with_totals and place % every == 0:
                totals.append(self._whole_totals(at, chain, model, activations, inverse))
        return Averages(
            feature_counts=feature_counts / len(numbers),
            sample_counts=sample_counts,
            activations=mean_activations,
            totals=totals,
        )

    def _sweep(
        self, key: Key, chain: Chain, model: GammaPoissonModel, inverse: Any, *, drawing: bool
    ) -> tuple[Any, Floats]:
        """One sweep: activations and feature counts. A collapsed chain draws activations only where they are wanted."""
        if chain.labels is None:
            activations = self.activations(key, chain.sample_counts, model.shape, inverse)
            chain.sample_counts, drawn = self.allocations(key, activations, model.dictionary)
            return activations, drawn
        priors = model.dictionary, model.shape, inverse
        chain.labels, chain.sample_counts, drawn = self.labels(key, chain.labels, *priors)
        if drawing:
            return self.activations(key, chain.sample_counts, model.shape, inverse), drawn
        return inverse, drawn

    def _smoothed(self, chain: Chain, model: GammaPoissonModel, inverse: Any) -> Any:
        """Expected activations given the allocations of a draw."""
        rows = [chain.sample_counts, inverse]
        return self.map_rows(_smoothed, model.shape, reads=rows, makes=[Made(model.shape.shape)])[1][0]

    def _whole_totals(self, key: Key, chain: Chain, model: GammaPoissonModel, activations: Any, inverse: Any) -> Any:
        """The sample counts of a draw, those of missing cells drawn too: the totals of Eq. 22."""
        if not self.data.n_missing:
            return chain.sample_counts
        # Drawn here, from one stream.
        hidden = np.maximum(model.rate + model.dictionary.sum(axis=0) - 1.0 / np.asarray(inverse), 0.0)
        drawn = key.for_stage("totals").generator().poisson(np.asarray(activations) * hidden)
        return np.asarray(chain.sample_counts) + drawn


def mean_rows(samples: Side, mean: Any, value: Any, weight: float) -> Any:
    """An array with one row per sample moved towards another by a share of the distance; None: it is the other."""
    if mean is None:
        return value
    return samples.map_rows(_mean_rows, weight, reads=[mean, value], makes=[Made(value.shape[1:])])[1][0]


def _mean_rows(block: Block, mean: Floats, value: Floats, out: Floats, weight: float) -> float:
    rows = block.rows
    out[rows] = mean[rows] + weight * (value[rows] - mean[rows])
    return 0.0


def _smoothed(block: Block, sample_counts: Floats, inverse: Floats, out: Floats, shape: Floats) -> float:
    out[block.rows] = (shape + sample_counts[block.rows]) * block.own(inverse)
    return 0.0


def sweep_key(key: Key, number: int) -> Key:
    """The key of a sweep inside an iteration: no two sweeps of a fit share one."""
    return key.at((key.iteration << 24) + number)
