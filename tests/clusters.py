"""Dask clusters of this process, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

distributed = pytest.importorskip("distributed", reason="needs the extra partwise[dask]")


@contextmanager
def cluster(n_workers: int, *, processes: bool = False) -> Iterator[Any]:
    """A client of a cluster with that many workers of one thread."""
    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=processes, dashboard_address=":0"
        ) as started,
        distributed.Client(started, set_as_default=False) as client,
    ):
        yield client
