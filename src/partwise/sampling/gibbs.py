"""The frame of a Gibbs sampler of labels: chains, burn-in, thinning, and when a draw is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import Ragged
from partwise.sampling.agreement import agreement


class SamplerState(Protocol):
    """Labels of all chains, as a family stores them, and what was kept."""

    draws: Any


Data = TypeVar("Data")
State = TypeVar("State", bound=SamplerState)


@dataclass(kw_only=True)
class GibbsSampler(ABC, Generic[Data, State]):
    """Base of samplers of labels. A step is one sweep of every chain; a family says how to sweep and what to keep.

    Attributes
    ----------
    n_draws, burn_in, thin
        Draws that each chain keeps, sweeps that it throws away before, and sweeps for each draw that is kept.
    n_chains
        Independent chains.
    active_threshold
        Share of all labels from which a component counts as active.
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
        """Last sweep before the draws of a round, and sweeps for each of these.

        The first round is what was asked for. Each further one throws away the draws before it and takes twice as many
        sweeps for a draw, so that all sweeps before it are its burn-in.
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
        """Sweeps of the first round."""
        return self._round(1)[0]

    def sweeps_within(self, most: int) -> int:
        """Sweeps of as many whole rounds as ``most`` sweeps allow, one round at least."""
        number = 1
        while self._round(number + 1)[0] <= most:
            number += 1
        return self._round(number)[0]

    @abstractmethod
    def init(self, key: Key, data: Data) -> State:
        """First labels of every chain."""

    @abstractmethod
    def no_draws(self, data: Data) -> Any:
        """Storage for the draws of a round."""

    def step(self, key: Key, data: Data, state: State) -> tuple[State, Mapping[str, float]]:
        """One sweep; after the burn-in every ``thin``-th is kept. The last of a round tells whether chains agree."""
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
        """Add the present labels of every chain to what is kept."""

    def keep_at_least_one(self, data: Data, state: State) -> None:
        """Of a run that was interrupted in its burn-in, keep the last labels: they are all there is."""
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
        """Sweep the rows of one chain in parallel, and give the sum of what the function returns.

        Parameters
        ----------
        function
            A function of a module: ``function(block, labels, starts, counts, *shared)`` changes labels and counts.
        data, blocks
            The data, and where their rows are cut.
        shared
            Further arguments, the same for all blocks.
        labels, counts
            Labels, which lie row after row, and their counts in each row; one array per chain, replaced in place.
        chain
            The chain.
        starts_of
            Finds from the data where the labels of each row begin (see `partwise.engines.blocks.Ragged`).
        """
        placed = self.engine.place(Ragged(labels[chain], starts_of), data, blocks)
        changes = [Ragged(placed, starts_of), counts[chain]]
        sums, (labels[chain], counts[chain]) = self.engine.map_rows(function, data, blocks, *shared, changes=changes)
        return sums
