"""The local engine: the same bits for any number of threads, few partial results, clean errors."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from sums import adversarial, reference

from partwise.engines import Engine, LocalEngine, local, resolve_engine, tree
from partwise.errors import InvalidInputError

N_JOBS = [1, 2, 3, 8]


def shuffled_pause(index: int) -> None:
    """Make blocks finish in an order that has nothing to do with their number."""
    time.sleep((index * 7919 % 11) * 1e-4)


def sum_bits(engine: Any, terms: np.ndarray) -> bytes:
    def function(index: int, scale: float) -> np.ndarray:
        shuffled_pause(index)
        return terms[index] * scale

    return engine.map_reduce(function, range(len(terms)), 3.0).tobytes()


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 17, 64])
def test_the_sum_is_the_documented_tree_for_any_number_of_threads(n_blocks: int) -> None:
    terms = np.array(adversarial(4 * n_blocks)).reshape(n_blocks, 4)
    expected = reference(list(terms * 3.0)).tobytes()
    for n_jobs in N_JOBS:
        for _ in range(3):
            assert sum_bits(LocalEngine(n_jobs), terms) == expected


class RacingEngine:
    """What an engine must not do: add as results come in."""

    def map_reduce(self, function: Any, blocks: Any, *args: Any) -> np.ndarray:
        total, lock = np.zeros(4), threading.Lock()

        def work(block: Any) -> None:
            value = function(block, *args)
            with lock:
                np.add(total, value, out=total)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, blocks))
        return total


def test_a_racing_sum_would_be_seen() -> None:
    """Racing sums differ from the tree, and from each other: the test above can fail."""
    terms = np.array(adversarial(256)).reshape(64, 4)
    expected = reference(list(terms * 3.0)).tobytes()
    racing = [sum_bits(RacingEngine(), terms) for _ in range(10)]
    assert all(bits != expected for bits in racing)
    assert len(set(racing)) > 1


@pytest.mark.parametrize("n_jobs", N_JOBS)
def test_for_each_reaches_every_block_once(n_jobs: int) -> None:
    out = np.zeros(100)

    def write(block: tuple[int, int], step: float) -> None:
        shuffled_pause(block[0])
        out[slice(*block)] += step

    LocalEngine(n_jobs).for_each(write, [(start, start + 5) for start in range(0, 100, 5)], 2.0)
    assert (out == 2.0).all()
    LocalEngine(n_jobs).for_each(write, [], 2.0)
    assert (out == 2.0).all()


def most_alive(n_jobs: int, n_blocks: int, slow: Any) -> int:
    """The largest number of partial results that existed at one time."""
    lock = threading.Lock()
    alive = most = 0

    def gone() -> None:
        nonlocal alive
        with lock:
            alive -= 1

    def function(index: int) -> np.ndarray:
        nonlocal alive, most
        if index in slow:
            time.sleep(0.02)
        value = np.ones(3)
        weakref.finalize(value, gone)
        with lock:
            alive += 1
            most = max(most, alive)
        return value

    gc.collect()
    assert LocalEngine(n_jobs).map_reduce(function, range(n_blocks)).tolist() == [n_blocks] * 3
    return most


@pytest.mark.parametrize("n_jobs", N_JOBS)
def test_few_partial_results_are_alive(n_jobs: int) -> None:
    n_blocks = 512
    bound = (4 * n_jobs if n_jobs > 1 else 1) + math.log2(n_blocks) + 1
    for slow in ((), (0,), (1, 170, 341), range(0, n_blocks, 101)):
        assert most_alive(n_jobs, n_blocks, slow) <= bound


def test_collected_partial_results_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that first collects and then sums fails the test above."""

    class Collecting(tree.TreeSum):  # type: ignore[type-arg]
        def __init__(self, n_terms: int) -> None:
            super().__init__(n_terms)
            self.terms: list[Any] = [None] * n_terms

        def put(self, index: int, term: Any) -> None:
            self.terms[index] = term

        def result(self) -> Any:
            return reference(self.terms)

    monkeypatch.setattr(local, "TreeSum", Collecting)
    assert most_alive(2, 512, ()) == 512


@pytest.mark.parametrize("n_jobs", N_JOBS)
def test_the_first_error_comes_out_and_later_blocks_are_not_begun(n_jobs: int) -> None:
    begun: list[int] = []

    def function(index: int) -> float:
        begun.append(index)
        if index in (20, 21, 22):
            time.sleep(0.02 if index == 20 else 0.0)
            raise ValueError(f"block {index} failed")
        return 1.0

    engine = LocalEngine(n_jobs)
    for call in (engine.map_reduce, engine.for_each):
        for _ in range(3):
            begun.clear()
            with pytest.raises(ValueError, match="block 20 failed"):
                call(function, range(1000))
            assert max(begun) < 20 + 5 * n_jobs
    assert engine.map_reduce(lambda index: 1.0, range(50)) == 50.0


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_nobody_works_on_after_an_interrupt(n_jobs: int) -> None:
    """When the call ends with an interrupt, no thread may still write to the caller's arrays."""
    working = 0
    lock = threading.Lock()
    main = threading.get_ident()

    def function(index: int) -> None:
        nonlocal working
        with lock:
            working += 1
        time.sleep(0.005)
        if threading.get_ident() == main and index > 5:
            raise KeyboardInterrupt
        with lock:
            working -= 1

    with pytest.raises(KeyboardInterrupt):
        LocalEngine(n_jobs).for_each(function, range(500))
    assert working == 1  # the interrupted block itself


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("method", ["map_reduce", "for_each"])
def test_an_error_in_a_helping_thread_comes_out_and_nobody_waits_for_ever(kind: type, method: str) -> None:
    caught: list[BaseException] = []

    def call() -> None:
        caller, helped = threading.get_ident(), threading.Event()

        def function(index: int) -> float:
            if threading.get_ident() != caller:
                helped.set()
                raise kind("in a helping thread")
            helped.wait(10)
            return 1.0

        try:
            getattr(LocalEngine(2), method)(function, range(100))
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert [type(error) for error in caught] == [kind]


def test_an_engine_may_be_used_inside_a_block_and_from_many_threads() -> None:
    engine = LocalEngine(3)

    def inner(index: int) -> float:
        return engine.map_reduce(lambda block: float(block), range(20))

    with ThreadPoolExecutor(4) as callers:
        sums = list(callers.map(lambda _: engine.map_reduce(inner, range(10)), range(8)))
    assert sums == [1900.0] * 8


def test_the_callers_floating_point_settings_hold_in_all_threads() -> None:
    def function(index: int) -> np.ndarray:
        time.sleep(0.001)
        return np.log(np.zeros(1))

    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        LocalEngine(4).map_reduce(function, range(20))
    with np.errstate(divide="ignore"):
        assert LocalEngine(4).map_reduce(function, range(20)).tolist() == [-math.inf]


def test_threads_are_used_and_used_again() -> None:
    def names() -> set[str]:
        seen: set[str] = set()
        all_here = threading.Barrier(3)

        def function(index: int) -> None:
            if index < 3:
                all_here.wait(10)
            seen.add(threading.current_thread().name)

        LocalEngine(3).for_each(function, range(30))
        return seen

    first = names()
    assert len(first) == 3
    assert threading.current_thread().name in first
    before = threading.active_count()
    for _ in range(5):
        names()
    assert threading.active_count() <= before


def test_one_thread_works_in_the_callers() -> None:
    seen: set[int] = set()
    LocalEngine(1).for_each(lambda index: seen.add(threading.get_ident()), range(5))
    LocalEngine(8).for_each(lambda index: seen.add(threading.get_ident()), range(1))
    assert seen == {threading.get_ident()}


def test_an_engine_is_a_value() -> None:
    engine = LocalEngine(2)
    engine.for_each(lambda index: None, range(10))
    for other in (pickle.loads(pickle.dumps(engine)), copy.deepcopy(engine)):
        assert other == engine
        assert other.map_reduce(float, range(4)) == 6.0
    assert isinstance(engine, Engine)


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork on this system")
def test_a_forked_child_has_threads_of_its_own() -> None:
    program = """
import os, sys, threading
from partwise.engines import LocalEngine

def threads_used():
    seen, all_here = set(), threading.Barrier(3)
    LocalEngine(3).for_each(lambda block: (all_here.wait(5), seen.add(threading.get_ident())), range(3))
    return len(seen)

assert threads_used() == 3
child = os.fork()
if child == 0:
    os._exit(0 if threads_used() == 3 else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], timeout=20, check=False)
    assert done.returncode == 0


def test_numbers_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joblib.cpu_count", lambda: 6)
    assert [LocalEngine(n_jobs).n_threads for n_jobs in (None, 1, 4, -1, -2, -100)] == [1, 1, 4, 6, 5, 1]
    for bad in (0, True):
        with pytest.raises(InvalidInputError, match="n_jobs must be"):
            LocalEngine(bad)


def test_resolve_engine() -> None:
    assert resolve_engine(None, 3) == resolve_engine("local", 3) == LocalEngine(3)
    engine = LocalEngine(2)
    assert resolve_engine(engine, 5) is engine
    for bad in ("cluster", 3, LocalEngine):
        with pytest.raises(InvalidInputError, match="engine must be None, 'local', 'dask'"):
            resolve_engine(bad)  # type: ignore[arg-type]


def test_a_sum_of_no_blocks_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        LocalEngine(1).map_reduce(float, [])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_block_costs_little(n_jobs: int) -> None:
    """Below 30 µs of processor time a block (1.5 measured with one thread, 2.5 with two), the best of ten."""
    engine, n_blocks, best = LocalEngine(n_jobs), 256, math.inf
    for _ in range(10):
        started = time.process_time()
        engine.map_reduce(float, range(n_blocks))
        best = min(best, time.process_time() - started)
    assert best / n_blocks < 30e-6
