"""The frame of Gibbs samplers on a toy: which sweeps are kept, in which order chains go, what is said of draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

from partwise.core.keys import Key
from partwise.core.run import run
from partwise.engines import resolve_engine
from partwise.engines.blocks import Block, row_blocks
from partwise.sampling.draws import KeptDraws, label_type
from partwise.sampling.gibbs import GibbsSampler, KeepsChains


@dataclass
class ToyDraws(KeptDraws):
    names: ClassVar[tuple[str, ...]] = ("log_joint", "n_active", "secret")
    untraced: ClassVar[tuple[str, ...]] = ("secret",)

    sums: list[Any]


@dataclass
class ToyState:
    sweeps: list[Any]
    draws: ToyDraws


@dataclass
class Toy(GibbsSampler[Any, ToyState]):
    """Each chain counts its sweeps, and remembers their keys."""

    first: int
    seen: list[tuple[int, int]] = field(default_factory=list, compare=False)

    def init(self, key: Key, data: Any) -> ToyState:
        return ToyState([np.full(1, self.first) for _ in range(self.n_chains)], self.no_draws(data))

    def no_draws(self, data: Any) -> ToyDraws:
        return ToyDraws(ToyDraws.no_numbers(self.n_chains, self.n_draws), 0, [0] * self.n_chains)

    def _sweep(self, key: Key, data: Any, state: ToyState, chain: int) -> None:
        assert key.chain == chain
        self.seen.append((key.iteration, chain))
        state.sweeps[chain] += 1

    def keep(self, data: Any, state: ToyState) -> None:
        numbers = np.array([float(own[0]) for own in state.sweeps])
        state.draws.record(log_joint=numbers + np.arange(self.n_chains), n_active=1, secret=np.nan)


class RowwiseToy(Toy):
    rows_in_parallel: ClassVar[bool] = True


def toy(kind: type[Toy] = Toy, **changes: Any) -> Toy:
    lengths = {"n_draws": 3, "burn_in": 4, "thin": 2, "n_chains": 2, **changes}
    return kind(0, **lengths, active_threshold=0.01, engine=resolve_engine(None, 2))


def fitted(sampler: Toy, max_iter: int) -> ToyState:
    state: ToyState = run(sampler, None, key=Key(0), max_iter=max_iter, progress=False).state
    return state


def test_every_thin_th_sweep_after_the_burn_in_is_kept() -> None:
    sampler = toy()
    assert sampler.n_sweeps == 10
    state = fitted(sampler, 10)
    assert state.draws.n_kept == 3
    np.testing.assert_array_equal(state.draws.of_chains()["log_joint"], [[6, 8, 10], [7, 9, 11]])
    assert state.draws.likeliest == 1


def test_a_further_round_forgets_the_draws_before_and_takes_twice_as_many_sweeps() -> None:
    sampler = toy()
    assert [sampler.sweeps_within(most) for most in (0, 10, 21, 22, 45, 46, 47)] == [10, 10, 10, 22, 22, 46, 46]
    assert fitted(sampler, 13).draws.n_kept == 3  # until the first draw of the second round, those of the first
    second = fitted(toy(), 18)
    np.testing.assert_array_equal(second.draws.of_chains()["log_joint"], [[14, 18], [15, 19]])
    third = fitted(toy(), 46)
    np.testing.assert_array_equal(third.draws.of_chains()["log_joint"], [[30, 38, 46], [31, 39, 47]])


@pytest.mark.parametrize("kind", [Toy, RowwiseToy])
def test_every_chain_is_swept_once_per_iteration(kind: type[Toy]) -> None:
    sampler = toy(kind, n_chains=3)
    fitted(sampler, 5)
    assert sorted(sampler.seen) == [(iteration, chain) for iteration in range(1, 6) for chain in range(3)]
    if sampler.rows_in_parallel:
        assert sampler.seen == sorted(sampler.seen), "chains go one after the other where rows go in parallel"


def test_a_run_that_ends_in_its_burn_in_keeps_its_last_labels() -> None:
    sampler = toy()
    state = fitted(sampler, 2)
    assert state.draws.n_kept == 0
    for _ in range(2):
        sampler.keep_at_least_one(None, state)
        np.testing.assert_array_equal(state.draws.of_chains()["log_joint"], [[2], [3]])


def test_the_trace_has_means_over_chains_of_what_may_be_traced() -> None:
    state = fitted(toy(), 6)
    assert state.draws.last() == {"log_joint": 6.5, "n_active": 1.0}
    trace = run(toy(), None, key=Key(0), max_iter=6, progress=False).trace
    assert np.isnan(trace["log_joint"][:-1]).all()
    assert trace["log_joint"][-1] == 6.5
    assert "secret" not in trace


def test_lengths_are_keywords_only() -> None:
    with pytest.raises(TypeError, match="positional"):
        Toy(0, [], 3, 4, 2, 2)  # type: ignore[misc]


def count_rows(block: Block, labels: Any, starts: Any, counts: Any, step: int) -> int:
    for n in range(block.start, block.stop):
        labels[starts[n] : starts[n + 1]] += step
        counts[n] = labels[starts[n] : starts[n + 1]].sum()
    return int(counts[block.rows].sum())


def starts_of(data: Any) -> Any:
    return data


def test_blocks_of_rows_change_labels_and_counts_of_one_chain() -> None:
    starts = np.array([0, 2, 3, 3, 7])
    labels, counts = [np.arange(7), np.zeros(7, int)], [np.zeros(4, int), np.zeros(4, int)]
    blocks = row_blocks(starts, 2)
    assert len(blocks) > 1
    total = toy()._sweep_blocks(count_rows, starts, blocks, (10,), labels, counts, 0, starts_of)
    np.testing.assert_array_equal(labels[0], np.arange(7) + 10)
    np.testing.assert_array_equal(counts[0], [21, 12, 0, 58])
    assert total == 91
    assert not labels[1].any()
    assert not counts[1].any()


class Estimator(KeepsChains):
    kept_numbers: ClassVar[tuple[str, ...]] = ToyDraws.names


def test_an_estimator_stores_the_numbers_of_draws() -> None:
    model = Estimator()
    assert model.chains() == {}
    draws = fitted(toy(), 8).draws
    model._store_numbers(draws)
    found = model.chains()
    assert found.keys() == {"log_joint", "n_active"}, "what the data do not have is left out"
    np.testing.assert_array_equal(found["log_joint"], [[6, 8], [7, 9]])
    found["log_joint"][:] = 0.0
    assert draws.numbers[0, 0, 0] == 6.0, "numbers are copies"
    model.n_draws, model.burn_in, model.thin, model.n_chains = 1, 2, 3, 4
    settings = {"n_draws": 1, "burn_in": 2, "thin": 3, "n_chains": 4, "engine": None}
    assert model._sampler_settings(engine=None) == settings


def test_labels_take_as_few_bytes_as_they_can() -> None:
    sizes = (1, 2**8, 2**8 + 1, 2**16, 2**16 + 1)
    assert [label_type(size) for size in sizes] == [np.uint8, np.uint8, np.uint16, np.uint16, np.uint32]
