"""BLAS is held to one thread while a fit runs, and set free afterwards."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits
from toys import TwoHalves

from partwise.core.blas import one_blas_thread
from partwise.core.keys import Key
from partwise.core.run import run


def blas_threads() -> set[int]:
    np.dot(np.ones((2, 2)), np.ones((2, 2)))
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _two_threads_before():
    with threadpool_limits(2, "blas"):
        if blas_threads() != {2}:
            pytest.skip("this NumPy has no BLAS whose threads can be set")
        yield
        assert blas_threads() == {2}


def test_a_run_holds_blas_to_one_thread() -> None:
    seen: list[set[int]] = []
    run(TwoHalves(between=lambda iteration: seen.append(blas_threads())), None, key=Key(0), max_iter=2)
    assert seen == [{1}, {1}]


def test_overlapping_fits_restore_it_with_the_last() -> None:
    """Two threads whose contexts overlap: the first one's end must not free the second, nor may one thread remain."""
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()
    seen: list[set[int]] = []

    def second() -> None:
        first_in.wait()
        with one_blas_thread():
            second_in.set()
            first_out.wait()
            seen.append(blas_threads())

    thread = threading.Thread(target=second)
    thread.start()
    with one_blas_thread():
        first_in.set()
        second_in.wait()
    first_out.set()
    thread.join()
    assert seen == [{1}]
    assert blas_threads() == {2}


def test_every_thread_can_hold_it() -> None:
    """Also after another one, still alive, did: threadpoolctl would ignore all but the first that sets it."""
    with one_blas_thread():
        assert blas_threads() == {1}
    assert blas_threads() == {2}

    def held() -> set[int]:
        with one_blas_thread():
            return blas_threads()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(held).result() == {1}
        assert pool.submit(blas_threads).result() == {2}


def test_it_is_restored_after_an_error() -> None:
    def fail(iteration: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(TwoHalves(between=fail), None, key=Key(0), max_iter=2)
    assert blas_threads() == {2}
