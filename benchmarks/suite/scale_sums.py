"""Bytes that workers send in an iteration with a million features: sums of touched features alone, and dense ones."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.harness.line import Goal, Line, Sample, Settings
from partwise.engines import tree

_FEATURES, _N_COMPONENTS, _PER_ROW, _ITERATIONS = 1_000_000, 10, 200, 2
# Blocks have eight nonzeros for each feature: four of them.
_ROWS_OF_SUBJECTS = 4 * 8 * _FEATURES // _PER_ROW
_FEW_ROWS = 1000
_GOAL = Goal(1.0, "below")


def measure(settings: Settings) -> Iterator[Line]:
    """Megabytes that leave the workers, dictionaries among them; bytes do not vary, so each is counted once."""
    n_features = int(os.environ.get("PARTWISE_SCALE_FEATURES", _FEATURES))
    scale = n_features / _FEATURES
    cases = {
        "few rows": _rows(int(_FEW_ROWS * scale), n_features, 1),
        "rows in the order of eight subjects, with features of their own": _rows(
            int(_ROWS_OF_SUBJECTS * scale), n_features, 8
        ),
        "rows in any order": _rows(int(_ROWS_OF_SUBJECTS * scale), n_features, 1),
    }
    for name, blocks in cases.items():
        with tempfile.TemporaryDirectory(dir=os.environ.get("PARTWISE_SCRATCH")) as folder:
            from partwise import on_disk

            data = on_disk(blocks, Path(folder) / "rows")
            touched, dense = (_megabytes(data, keep_dense) for keep_dense in (False, True))
            described = f"{name}, {data.shape[0]} x {n_features}, {data.nnz:.2g} nonzeros"
        what = f"sent by workers in {_ITERATIONS} iterations, K = {_N_COMPONENTS}"
        ours, theirs = Sample.of([touched], "MB"), Sample.of([dense], "MB")
        peer = "partwise, dense sums"
        goal = None if "any order" in name else _GOAL
        yield Line(what, described, ours, theirs, peer, peer_over_ours=False, goal=goal, threads="2 workers")


def _rows(n_rows: int, n_features: int, n_subjects: int) -> Iterator[Any]:
    """Blocks of rows, one for each eighth; features of a subject are a stretch of all, popular ones first."""
    rng = np.random.default_rng(0)
    width = n_features // n_subjects
    for number in range(8):
        size = (n_rows * (number + 1)) // 8 - (n_rows * number) // 8
        # Popularity falls as 1 / rank, as that of words does.
        ranks = np.exp(rng.random((size, _PER_ROW)) * np.log(width)).astype(np.int64) - 1
        columns = ranks + width * (number * n_subjects // 8)
        counts = np.ones(size * _PER_ROW, dtype=np.int64)
        rows = np.repeat(np.arange(size), _PER_ROW)
        yield sp.csr_array((counts, (rows, columns.ravel())), shape=(size, n_features))


def _megabytes(data: Any, keep_dense: bool) -> float:
    """Workers in this process, that send through sockets: bytes are the same as between machines."""
    from partwise import PoissonNMF

    distributed: Any = import_module("distributed")
    settings: dict[str, Any] = {"random_state": 0, "tol": 0.0, "progress": False, "max_iter": _ITERATIONS}
    where: dict[str, Any] = {"processes": False, "protocol": "tcp://", "dashboard_address": ":0"}
    with (
        _least(2**62 if keep_dense else tree._FEWEST_ENTRIES),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **where) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        before = sum(client.run(_sent).values())
        PoissonNMF(_N_COMPONENTS, inference="multiplicative", engine=client, **settings).fit(data)
        return float(sum(client.run(_sent).values()) - before) / 1e6


@contextmanager
def _least(entries: int) -> Iterator[None]:
    """Pack arrays from a number of entries on."""
    before, tree._FEWEST_ENTRIES = tree._FEWEST_ENTRIES, entries
    try:
        yield
    finally:
        tree._FEWEST_ENTRIES = before


def _sent(dask_worker: Any) -> int:
    return int(dask_worker.transfer_outgoing_bytes_total)
