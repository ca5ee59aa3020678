"""The Monte Carlo E-step: a Gibbs chain for given parameters, and averages over its draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.stacked import stacked
from partwise.errors import InvalidInputError
from partwise.gamma_poisson.inference.sweeps import Sweeps
from partwise.gamma_poisson.model import GammaPoissonModel
from partwise.poisson.inference.passes import Side

Floats = NDArray[np.float64]

# Draws of the sample counts that are kept one by one, for the estimation of shapes.
_MOST_TOTALS = 8
_MOST_LABELS = 2**31


@dataclass
class Chain:
    """Where a Gibbs chain stands: the allocation totals of each sample and, if it is collapsed, each token's label."""

    sample_counts: Floats
    labels: NDArray[Any] | None = None

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
        h_nk: samples x components.
    totals
        Some draws of the sample counts one by one, missing cells imputed; None if they were not asked for.
    before
        The same over the second half of the burn-in, sampled: draws from which nothing is estimated, and by which
        therefore an estimate can be judged. None without a burn-in.
    """

    feature_counts: Floats
    sample_counts: Floats
    activations: Floats
    totals: Floats | None
    before: Averages | None = None


@dataclass(frozen=True)
class GibbsEStep:
    """Sweeps of a chain over some data.

    ``expected`` replaces sampled allocations in the averages by their expectations given the activations
    (Rao-Blackwell), and ``smooth`` activations by theirs given the allocations.
    """

    data: SparseData
    engine: Engine
    expected: bool = False
    smooth: bool = False

    def run(
        self, key: Key, chain: Chain, model: GammaPoissonModel, *, n_draws: int, burn_in: int, with_totals: bool = False
    ) -> Averages:
        """Go on with the chain, which is updated in place (warm restart), and average over what follows the burn-in."""
        sweeps = Sweeps(self.data, self.engine)
        samples = Side(self.data, self.engine)
        inverse = 1.0 / (model.rate + samples.exposure(model.dictionary, stay=True))
        chain.sample_counts = samples.place(chain.sample_counts)
        settled = burn_in // 2
        for number in range(settled):
            self._sweep(sweeps, sweep_key(key, number), chain, model, inverse, with_activations=False)
        before = None
        if burn_in > settled:
            plain = replace(self, expected=False, smooth=True)
            keys = [sweep_key(key, number) for number in range(settled, burn_in)]
            before = plain._averages(sweeps, keys, chain, model, inverse, with_totals=with_totals)
        keys = [sweep_key(key, number) for number in range(burn_in, burn_in + n_draws)]
        averages = self._averages(sweeps, keys, chain, model, inverse, with_totals=with_totals)
        return replace(averages, before=before)

    def _averages(
        self,
        sweeps: Sweeps,
        keys: list[Key],
        chain: Chain,
        model: GammaPoissonModel,
        inverse: Floats,
        *,
        with_totals: bool,
    ) -> Averages:
        """One sweep for each key, and averages over all of them."""
        feature_counts = np.zeros_like(model.dictionary)
        sample_counts: Any = 0.0
        mean_activations: Any = 0.0
        totals = []
        every = -(-len(keys) // _MOST_TOTALS)
        drawing = self.expected or not self.smooth or self.data.n_missing > 0
        for number, key in enumerate(keys):
            activations, drawn = self._sweep(sweeps, key, chain, model, inverse, with_activations=drawing)
            feature_counts += self._expected(model, activations) if self.expected else drawn
            sample_counts += chain.sample_counts
            mean_activations += (model.shape + chain.sample_counts) * inverse if self.smooth else activations
            if with_totals and number % every == 0:
                totals.append(self._whole_totals(key, chain, model, activations, inverse))
        return Averages(
            feature_counts / len(keys),
            sample_counts / len(keys),
            mean_activations / len(keys),
            stacked(totals) if totals else None,
        )

    def _sweep(
        self,
        sweeps: Sweeps,
        key: Key,
        chain: Chain,
        model: GammaPoissonModel,
        inverse: Floats,
        *,
        with_activations: bool,
    ) -> tuple[Floats, Floats]:
        """One sweep: activations and feature counts. A collapsed chain draws activations only where they are wanted."""
        if chain.labels is None:
            activations = sweeps.activations(key, chain.sample_counts, model.shape, inverse)
            chain.sample_counts, drawn = sweeps.allocations(key, activations, model.dictionary)
            return activations, drawn
        priors = model.dictionary, model.shape, inverse
        chain.labels, chain.sample_counts, drawn = sweeps.labels(key, chain.labels, *priors)
        if with_activations:
            return sweeps.activations(key, chain.sample_counts, model.shape, inverse), drawn
        return inverse, drawn

    def _expected(self, model: GammaPoissonModel, activations: Floats) -> Floats:
        return Side(self.data.transposed, self.engine).expected_counts(model.dictionary, activations)[0]

    def _whole_totals(
        self, key: Key, chain: Chain, model: GammaPoissonModel, activations: Floats, inverse: Floats
    ) -> Floats:
        """The sample counts of a draw, those of missing cells drawn too: the totals of Eq. 22."""
        if not self.data.n_missing:
            return chain.sample_counts.copy()
        hidden = np.maximum(model.rate + model.dictionary.sum(axis=0) - 1.0 / inverse, 0.0)
        return np.asarray(chain.sample_counts + key.for_stage("totals").generator().poisson(activations * hidden))


def sweep_key(key: Key, number: int) -> Key:
    """The key of a sweep inside an iteration: no two sweeps of a fit share one."""
    return key.at((key.iteration << 24) + number)
