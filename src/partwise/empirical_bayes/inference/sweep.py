"""The problem of a fit, its ELBO, and Algorithm 6.1 with q(Z) refreshed once per factor: two passes per sweep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.special import gammaln

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.core.run import Info
from partwise.empirical_bayes.inference.rates import EmpiricalBayesState, Factor, RateSide
from partwise.engines.base import Engine
from partwise.engines.blocks import Block
from partwise.kernels.arrays import Floats, Places
from partwise.passes.batches import expected_in_groups
from partwise.passes.side import Floors, Side
from partwise.priors.base import PriorFamily
from partwise.priors.mixture import MixtureFamily


@dataclass(frozen=True)
class Settings:
    """What the algorithms have in common.

    Attributes
    ----------
    activation_family, dictionary_family
        Families of the priors.
    size_factors
        Whether the expected counts of a sample are also proportional to its total.
    background
        The same for features.
    prune
        Whether nearly empty parts are removed.
    ease
        Nats per count by which the prior of a part may fall short of the best in a sweep (0.0001 to 0.01 in total), if
        its family can stop early. The next sweep continues from there. 0 = not at all.
    """

    activation_family: PriorFamily
    dictionary_family: PriorFamily
    size_factors: bool = False
    background: bool = False
    prune: bool = True
    ease: float = 1e-8

    def eased(self, family: PriorFamily, data: SparseData) -> PriorFamily:
        """The family for the rows of some data, with the tolerance of a sweep."""
        if self.ease > 0 and isinstance(family, MixtureFamily):
            return family.eased(float(np.clip(self.ease * data.total, 1e-4, 1e-2)), data.shape[0])
        return family


@dataclass(frozen=True, eq=False)
class Problem:
    """The two sides of some data under some settings."""

    samples: RateSide
    features: RateSide

    @classmethod
    def of(cls, data: SparseData, settings: Settings, n_components: int, engine: Engine) -> Problem:
        """The problem of a fit."""
        floors = Floors.of(data, n_components)
        sizes, background = known_scales(data, settings, engine)
        by_sample = settings.eased(settings.activation_family, data)
        by_feature = settings.eased(settings.dictionary_family, data.transposed)
        return cls(
            RateSide(data, by_sample, sizes, floors.activations, engine, stay=True),
            RateSide(data.transposed, by_feature, background, floors.dictionary, engine),
        )

    def constant(self) -> float:
        """The terms of the ELBO that no factor changes: -Σ log x!, and x times the logarithms of known factors."""
        data = self.samples.data
        total = -float(gammaln(data.values.astype(np.float64) + 1.0).sum())
        for scales, sums in ((self.samples.scales, data.row_sums), (self.features.scales, data.column_sums)):
            if scales is not None:
                total += float(np.sum(sums * np.log(np.where(scales > 0, scales, 1.0))))
        return total

    def elbo(self, state: EmpiricalBayesState) -> float:
        """The ELBO of a state, with the best q(Z) for it."""
        activations, dictionary = state.activations, state.dictionary
        _, logs = self.samples.passes.expected_counts(activations.geometric, dictionary.geometric, with_logs=True)
        rows = [activations.mean, self.samples.exposure(*self.features.weighted(dictionary.mean))]
        expected, _ = self.samples.passes.map_rows(_sum_of_products, reads=rows)
        return bound(logs, expected, activations, dictionary, state.constant)

    def only(self, state: EmpiricalBayesState, kept: Places) -> EmpiricalBayesState:
        """Some of the parts."""
        return EmpiricalBayesState(
            activations=state.activations.only(kept, self.samples.columns),
            dictionary=state.dictionary.only(kept, self.features.columns),
            constant=state.constant,
            grown=state.grown,
        )


def _sum_of_products(block: Block, left: Floats, right: Floats) -> float:
    return float(np.sum(left[block.rows] * block.own(right)))


def bound(logs: float, expected: float, activations: Factor, dictionary: Factor, constant: float) -> float:
    """Σ x log Σ_k exp(E log h + E log w) - Σ E[h] E[w] - KL of both factors + constant; EB, B.2, corrected."""
    return logs - expected - float(activations.divergence.sum() + dictionary.divergence.sum()) + constant


def known_scales(data: SparseData, settings: Settings, engine: Engine) -> tuple[Floats | None, Floats | None]:
    """Size factors and background, with mean 1; None if not requested."""
    # Batch factors change during a fit, but known factors of rows and columns must stay the same.
    data, sizes = data.unweighted, None
    if settings.size_factors:
        shares = (data.column_sums / max(data.total, 1e-300))[:, None]
        sizes = size_factors(data, shares, engine)
        sizes /= sizes.mean()
    if not settings.background:
        return sizes, None
    weights = np.ones((data.shape[0], 1)) if sizes is None else sizes[:, None]
    background = size_factors(data.transposed, weights, engine)
    return sizes, background / background.mean()


def size_factors(data: SparseData, shares: Floats, engine: Engine) -> Floats:
    """Row totals relative to what the observed cells of each row would have; 0 if nothing is observed."""
    expected = np.broadcast_to(Side(data, engine).exposure(shares)[:, 0], data.shape[:1])
    return np.asarray(np.divide(data.row_sums, expected, out=np.zeros(data.shape[0]), where=expected > 0))


# A part with fewer expected counts in all data is empty.
_NOTHING = 0.5


class First(Protocol):
    """Builds a state to start from."""

    def make(self, key: Key, data: SparseData) -> EmpiricalBayesState:
        """Factors and priors before the first sweep."""


@dataclass
class Sweeps:
    """Update all activations from one q(Z), then the whole dictionary from the next. With flat priors this is EM.

    The first step builds the start, so a resumed run need not build it again.
    """

    settings: Settings
    first: First
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: SparseData) -> EmpiricalBayesState:
        """Nothing yet."""
        return EmpiricalBayesState.empty()

    def step(self, key: Key, data: SparseData, state: EmpiricalBayesState) -> tuple[EmpiricalBayesState, Info]:
        """One sweep; reports its ELBO and the number of parts."""
        if state.n_components == 0:
            state = self.first.make(key.at(0), data)
        problem = Problem.of(data, self.settings, state.n_components, self.engine)
        state, elbo = self.sweep(problem, state, key.iteration % 2)
        if self.settings.prune:
            state = without_collapsed(problem, state)
        return state, {"objective": elbo, "n_components": float(state.n_components)}

    def expected_in_groups(self, data: SparseData, state: EmpiricalBayesState) -> Floats:
        """Expected totals of each feature in each batch, without batch factors."""
        problem = Problem.of(data, self.settings, state.n_components, self.engine)
        activations, _ = problem.samples.weighted(state.activations.mean)
        dictionary, _ = problem.features.weighted(state.dictionary.mean)
        return expected_in_groups(problem.samples.passes, activations, dictionary)

    def rebase(self, state: EmpiricalBayesState, change: float) -> None:
        """Nothing to do: the state stores no objective."""

    def sweep(self, problem: Problem, state: EmpiricalBayesState, turn: int) -> tuple[EmpiricalBayesState, float]:
        """Update each factor once; the ELBO is computed between the two.

        Half of the priors are updated in each sweep, in turns: they converge long before the factors do, and fitting
        them is most of the work.
        """
        return sweep(problem, state, turn)


def sweep(problem: Problem, state: EmpiricalBayesState, turn: int | None = None) -> tuple[EmpiricalBayesState, float]:
    """Update activations, then the dictionary; the ELBO is computed between the two."""
    samples, features = problem.samples, problem.features
    activations, dictionary = state.activations, state.dictionary
    counts, _ = samples.passes.expected_counts(samples.passes.place(activations.geometric), dictionary.geometric)
    activations = samples.solve(counts, samples.exposure(*features.weighted(dictionary.mean)), activations, turn)
    counts, logs = features.passes.expected_counts(dictionary.geometric, activations.geometric, with_logs=True)
    exposure = features.exposure(*samples.weighted(activations.mean))
    elbo = bound(logs, float(np.sum(dictionary.mean * exposure)), activations, dictionary, state.constant)
    dictionary = features.solve(counts, exposure, dictionary, turn)
    return EmpiricalBayesState(activations, dictionary, state.constant, state.grown), elbo


def without_collapsed(problem: Problem, state: EmpiricalBayesState) -> EmpiricalBayesState:
    """The state without parts that hold less than half a count, unless the ELBO is higher with them."""
    held = state.dictionary.counts.sum(axis=0) >= _NOTHING
    if held.all() or not held.any():
        return state
    kept = problem.only(state, np.flatnonzero(held))
    return kept if problem.elbo(kept) >= problem.elbo(state) else state
