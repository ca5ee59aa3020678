"""The Monte Carlo E-step: a Gibbs chain for given parameters, and averages over its draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made
from partwise.errors import InvalidInputError
from partwise.gamma_poisson.inference.sweeps import Sweeps
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


@dataclass(frozen=True)
class GibbsEStep:
    """Sweeps of a chain over some data.

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

    data: SparseData
    engine: Engine
    expected: bool = False
    smooth: bool = False
    with_activations: bool = False
    with_totals: bool = False

    def run(self, key: Key, chain: Chain, model: GammaPoissonModel, *, n_draws: int, burn_in: int) -> Averages:
        """Go on with the chain, which is updated in place (warm restart), and average over what follows the burn-in."""
        inverse = MeanField(self.data, self.engine).rates(model, inverse=True)
        chain.sample_counts = self._samples.place(chain.sample_counts)
        settled = burn_in // 2
        for number in range(settled):
            self._sweep(sweep_key(key, number), chain, model, inverse, drawing=False)
        before = None
        if burn_in > settled:
            plain = replace(self, expected=False, smooth=True, with_activations=False)
            keys = [sweep_key(key, number) for number in range(settled, burn_in)]
            before = plain._averages(keys, chain, model, inverse)
        keys = [sweep_key(key, number) for number in range(burn_in, burn_in + n_draws)]
        return replace(self._averages(keys, chain, model, inverse), before=before)

    @cached_property
    def _samples(self) -> Side:
        return Side(self.data, self.engine)

    @cached_property
    def _sweeps(self) -> Sweeps:
        return Sweeps(self.data, self.engine)

    def _averages(self, keys: list[Key], chain: Chain, model: GammaPoissonModel, inverse: Any) -> Averages:
        """One sweep for each key, and averages over all of them."""
        feature_counts = np.zeros_like(model.dictionary)
        averages: list[Any] = []
        totals = []
        every = -(-len(keys) // _MOST_TOTALS)
        drawing = self.expected or not self.smooth or self.data.n_missing > 0
        for number, key in enumerate(keys):
            activations, drawn = self._sweep(key, chain, model, inverse, drawing=drawing)
            feature_counts += self._expected(model, activations) if self.expected else drawn
            rows = [chain.sample_counts]
            if self.with_activations:
                rows.append(self._smoothed(chain, model, inverse) if self.smooth else activations)
            averages = mean_rows(self._samples, averages, rows, 1.0 / (number + 1)) if number else rows
            if self.with_totals and number % every == 0:
                totals.append(self._whole_totals(key, chain, model, activations, inverse))
        return Averages(
            feature_counts=feature_counts / len(keys),
            sample_counts=averages[0],
            activations=averages[1] if self.with_activations else None,
            totals=totals,
        )

    def _sweep(
        self, key: Key, chain: Chain, model: GammaPoissonModel, inverse: Any, *, drawing: bool
    ) -> tuple[Any, Floats]:
        """One sweep: activations and feature counts. A collapsed chain draws activations only where they are wanted."""
        sweeps = self._sweeps
        if chain.labels is None:
            activations = sweeps.activations(key, chain.sample_counts, model.shape, inverse)
            chain.sample_counts, drawn = sweeps.allocations(key, activations, model.dictionary)
            return activations, drawn
        priors = model.dictionary, model.shape, inverse
        chain.labels, chain.sample_counts, drawn = sweeps.labels(key, chain.labels, *priors)
        if drawing:
            return sweeps.activations(key, chain.sample_counts, model.shape, inverse), drawn
        return inverse, drawn

    def _expected(self, model: GammaPoissonModel, activations: Any) -> Floats:
        return np.asarray(Side(self.data.transposed, self.engine).expected_counts(model.dictionary, activations)[0])

    def _smoothed(self, chain: Chain, model: GammaPoissonModel, inverse: Any) -> Any:
        """Expected activations given the allocations of a draw."""
        rows = [chain.sample_counts, inverse]
        return self._samples.map_rows(_smoothed, model.shape, reads=rows, makes=[Made(model.shape.shape)])[1][0]

    def _whole_totals(self, key: Key, chain: Chain, model: GammaPoissonModel, activations: Any, inverse: Any) -> Any:
        """The sample counts of a draw, those of missing cells drawn too: the totals of Eq. 22."""
        if not self.data.n_missing:
            return chain.sample_counts
        # Drawn here, from one stream.
        hidden = np.maximum(model.rate + model.dictionary.sum(axis=0) - 1.0 / np.asarray(inverse), 0.0)
        drawn = key.for_stage("totals").generator().poisson(np.asarray(activations) * hidden)
        return np.asarray(chain.sample_counts) + drawn


def mean_rows(samples: Side, means: Sequence[Any], values: Sequence[Any], weight: float) -> list[Any]:
    """Arrays with one row per sample moved towards others by a share of the distance."""
    made = [Made(array.shape[1:]) for array in values]
    return list(samples.map_rows(_mean_rows, weight, reads=[*means, *values], makes=made)[1])


def _mean_rows(block: Block, *arguments: Any) -> float:
    *arrays, weight = arguments
    n_means = len(arrays) // 3
    rows = [array[block.rows] for array in arrays]
    for mean, value, out in zip(rows[:n_means], rows[n_means : 2 * n_means], rows[2 * n_means :], strict=True):
        out[...] = mean + weight * (value - mean)
    return 0.0


def _smoothed(block: Block, sample_counts: Floats, inverse: Floats, out: Floats, shape: Floats) -> float:
    out[block.rows] = (shape + sample_counts[block.rows]) * block.own(inverse)
    return 0.0


def sweep_key(key: Key, number: int) -> Key:
    """The key of a sweep inside an iteration: no two sweeps of a fit share one."""
    return key.at((key.iteration << 24) + number)
