"""The framework of a Gibbs sampler of labels: chains, burn-in, thinning, and when a draw is kept.

Also, what estimators with a sampler share.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from partwise.core.keys import Key
from partwise.core.result import Status
from partwise.engines.base import Engine
from partwise.engines.blocks import Ragged
from partwise.sampling.agreement import SAME_PART, ChainsAgree, agreement, naming_parts, part_agreement
from partwise.sampling.draws import KeptDraws


class SamplerState(Protocol):
    """Labels of all chains, as a family stores them, and the kept draws."""

    draws: Any


Data = TypeVar("Data")
State = TypeVar("State", bound=SamplerState)


@dataclass(kw_only=True)
class GibbsSampler(ABC, Generic[Data, State]):
    """Base class of label samplers. A step is one sweep of every chain; a family defines the sweep and what to keep.

    Attributes
    ----------
    n_draws, burn_in, thin
        Draws kept per chain, sweeps discarded before them, and sweeps per kept draw.
    n_chains
        Number of independent chains.
    active_threshold
        A part counts as active from this share of all labels on.
    engine
        Where chains, or blocks of rows, are processed.
    """

    rows_in_parallel: ClassVar[bool] = False
    """Whether a sweep visits the rows of one chain in parallel. Otherwise chains run in parallel."""

    n_draws: int
    burn_in: int
    thin: int
    n_chains: int
    active_threshold: float
    engine: Engine = field(compare=False)

    def _round(self, number: int) -> tuple[int, int]:
        """The last sweep before the draws of a round, and the number of sweeps per draw.

        The first round is as requested. Each further round discards the earlier draws and takes twice as many sweeps
        per draw, so that all earlier sweeps are its burn-in.
        """
        before = self.burn_in + self.n_draws * self.thin * (2**number - 1)
        return before, self.thin * 2**number

    def _round_of(self, sweep: int) -> tuple[int, int]:
        number = 0
        while sweep > self._round(number + 1)[0]:
            number += 1
        return self._round(number)

    @property
    def n_sweeps(self) -> int:
        """Number of sweeps in the first round."""
        return self._round(1)[0]

    def sweeps_within(self, most: int) -> int:
        """Number of sweeps in as many whole rounds as ``most`` sweeps allow, at least one round."""
        return max(self._round_of(most + 1)[0], self.n_sweeps)

    @abstractmethod
    def init(self, key: Key, data: Data) -> State:
        """Initial labels of every chain."""

    @abstractmethod
    def no_draws(self, data: Data) -> Any:
        """Allocate storage for the draws of a round."""

    def step(self, key: Key, data: Data, state: State) -> tuple[State, Mapping[str, float]]:
        """Do one sweep. After the burn-in, keep every ``thin``-th. The last of a round checks whether chains agree."""
        self.sweep_all(key, data, state)
        before, thin = self._round_of(key.iteration)
        after = key.iteration - before
        if after <= 0 or after % thin:
            return state, {}
        if after == thin and before > self.burn_in:
            state.draws = self.no_draws(data)
        self.keep(data, state)
        numbers = state.draws.last()
        return state, numbers if state.draws.n_kept < self.n_draws else numbers | agreement(state.draws)

    def sweep_all(self, key: Key, data: Data, state: State) -> None:
        """Sweep every chain once, in place."""

        def one(chain: int) -> None:
            self._sweep(key.for_chain(chain), data, state, chain)

        if self.rows_in_parallel:
            for chain in range(self.n_chains):
                one(chain)
        else:
            self.engine.for_each(one, range(self.n_chains))

    @abstractmethod
    def _sweep(self, key: Key, data: Data, state: State, chain: int) -> None:
        """Sweep one chain, in place."""

    @abstractmethod
    def keep(self, data: Data, state: State) -> None:
        """Add the current labels of every chain to the kept draws."""

    def keep_at_least_one(self, data: Data, state: State) -> None:
        """If a run is interrupted during burn-in, keep the last labels: there is nothing else."""
        if state.draws.n_kept == 0:
            self.keep(data, state)

    def _sweep_blocks(
        self,
        function: Callable[..., Any],
        data: Data,
        blocks: Sequence[tuple[int, int]],
        shared: tuple[Any, ...],
        labels: list[Any],
        counts: list[Any],
        chain: int,
        starts_of: Callable[[Any], NDArray[np.int64]],
    ) -> Any:
        """Sweep the rows of one chain in parallel, and return the sum of the function's results.

        Parameters
        ----------
        function
            A function at module level: ``function(block, labels, starts, counts, *shared)`` changes labels and counts.
        data, blocks
            The data, and where their rows are cut.
        shared
            Further arguments, the same for all blocks.
        labels, counts
            Labels, stored row after row, and their counts in each row; one array per chain, replaced in place.
        chain
            The chain.
        starts_of
            Computes from the data where the labels of each row begin (see `partwise.engines.blocks.Ragged`).
        """
        changes = [Ragged(self.engine.place(Ragged(labels[chain], starts_of), data, blocks), starts_of), counts[chain]]
        sums, (labels[chain], counts[chain]) = self.engine.map_rows(function, data, blocks, *shared, changes=changes)
        return sums


# Limits for a run that goes on until its chains agree, and for fits without chains.
_MOST_SWEEPS, _MOST_ITERATIONS = 5000, 500


class KeepsChains:
    """Mixin for estimators with a sampler. List it before the base class that it extends.

    A number kept for each draw becomes the fitted attribute ``<name>_draws_``, chains x draws.
    """

    kept_numbers: ClassVar[tuple[str, ...]]
    n_draws: int
    burn_in: int
    thin: int
    n_chains: int
    max_iter: Any
    status_: Status
    active_components_: NDArray[np.intp]
    part_agreement_: NDArray[np.float64]

    def _most_sweeps(self, algorithm: GibbsSampler[Any, Any]) -> int:
        """Total number of sweeps: as requested, or with ``max_iter="auto"`` as many as chains need to agree."""
        return algorithm.sweeps_within(_MOST_SWEEPS if self.max_iter == "auto" else 0)

    @property
    def _most_iterations(self) -> int:
        """Number of iterations of fits without chains."""
        return _MOST_ITERATIONS if self.max_iter == "auto" else int(self.max_iter)

    @property
    def _chain_rule(self) -> ChainsAgree:
        """When chains have converged, and what to do if they have not."""
        if self.max_iter == "auto":
            return ChainsAgree(remedy="fit fewer parts, or raise n_draws")
        return ChainsAgree(remedy="raise burn_in and n_draws, or set max_iter='auto'")

    def _sampler_settings(self, **more: Any) -> dict[str, Any]:
        """Settings for a `partwise.sampling.gibbs.GibbsSampler`: those of this estimator, and ``more``."""
        return {name: int(getattr(self, name)) for name in ("n_draws", "burn_in", "thin", "n_chains")} | more

    def _store_chains(self, draws: KeptDraws, dictionaries: Any) -> None:
        """Store the numbers of draws, and name parts that not all chains found; dictionaries are features x parts."""
        self._store_numbers(draws)
        self.part_agreement_ = part_agreement(dictionaries, draws.likeliest)
        compared = int(np.sum(~np.isnan(self.part_agreement_[self.active_components_])))
        message = naming_parts(self.status_.message, self.tentative_parts(), compared)
        self.status_ = replace(self.status_, message=message)

    def _store_numbers(self, draws: KeptDraws) -> None:
        for name, values in draws.of_chains().items():
            setattr(self, f"{name}_draws_", values)

    def tentative_parts(self) -> list[int]:
        """Active parts that not every chain found: in some chain, the cosine with their match is below 0.8."""
        agreement = getattr(self, "part_agreement_", None)
        return [] if agreement is None else [int(k) for k in self.active_components_ if agreement[k] < SAME_PART]

    def chains(self) -> dict[str, NDArray[np.float64]]:
        """Numbers of each draw, chains x draws, without those that do not apply to the data; empty without sampler."""
        if not hasattr(self, "log_joint_draws_"):
            return {}
        found = {name: np.asarray(getattr(self, f"{name}_draws_")) for name in self.kept_numbers}
        return {name: values for name, values in found.items() if not np.isnan(values).any()}
