"""What goes between the client and the workers in an iteration does not grow with the number of samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from test_engine_matrix import SMALL_BLOCKS

from clusters import cluster, distributed
from partwise import AllocationNMF, BetaGammaPFA, BinaryNMF, EmpiricalBayesPoissonNMF, GammaPoissonNMF, PoissonNMF
from partwise.engines.dask import DaskEngine
from partwise.engines.worker_rows import RowsOnWorkers

N_ROWS, N_FEATURES, N_COMPONENTS, N_BLOCKS = 150, 12, 3, 6
FEW: dict[str, Any] = {"draws_per_iter": 2, "burn_in_per_iter": 2, "max_iter": 4, "tol": 0.0}
SHORT: dict[str, Any] = {"max_iter": 4, "tol": 0.0}
DRAWS: dict[str, Any] = {"n_draws": 2, "burn_in": 2}
# Concentrations that are learned need how many rows have each count, which grows with the longest row.
GIVEN: dict[str, Any] = {"dictionary_concentration": 0.1, "activation_concentration": 0.1}

CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "poisson": (PoissonNMF, {"inference": "multiplicative", **SHORT}),
    "gamma-poisson-mcem": (GammaPoissonNMF, {"inference": "mcem-c", **FEW}),
    "gamma-poisson-saem": (GammaPoissonNMF, {"inference": "saem", **FEW}),
    "gamma-poisson-vem": (GammaPoissonNMF, {"inference": "vem", **SHORT}),
    "gamma-poisson-joint": (GammaPoissonNMF, {"inference": "joint", **SHORT}),
    "beta-gamma": (BetaGammaPFA, DRAWS),
    "allocation-vb": (AllocationNMF, {"inference": "vb", **SHORT}),
    "allocation-partial": (AllocationNMF, {"inference": "gibbs-partial", **GIVEN, **DRAWS}),
    "allocation-distributed": (AllocationNMF, {"inference": "gibbs-distributed", **GIVEN, **DRAWS}),
    "empirical-bayes": (EmpiricalBayesPoissonNMF, SHORT),
    # Its kept draws are summed by the client, cell by cell. Dir-Beta is the same on the transposed table. Its
    # priors are learned: a row has no more cells than there are features, so how many rows have each count takes no
    # more room with more samples.
    "binary-partial": (BinaryNMF, {"inference": "gibbs-partial", "model": "beta-dir", "n_draws": 1, "burn_in": 4}),
}
QUICK = {"allocation-partial"}


def size_of(value: Any) -> int:
    """Bytes of what is sent along with a task, or comes back from it."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, dict):
        return sum(map(size_of, value.values()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return sum(map(size_of, value))
    if isinstance(value, distributed.Future | str) or callable(value):
        return 0
    return 8


class CountingEngine(DaskEngine):
    """Counts the bytes that it sends and receives."""

    n_bytes = 0

    def place(self, array: Any, *args: Any, **options: Any) -> Any:
        rows = getattr(array, "array", array)
        if not isinstance(rows, RowsOnWorkers):
            self.n_bytes += rows.nbytes
        return super().place(array, *args, **options)

    def submit_each(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        self.n_bytes += size_of(arguments)
        return super().submit_each(function, arguments)

    def results(self, futures: Sequence[Any]) -> list[Any]:
        found = super().results(futures)
        self.n_bytes += size_of(found)
        return found


class ClientHolds(CountingEngine):
    """Leaves all state with the client."""

    def place(self, array: Any, *args: Any, **options: Any) -> Any:
        return getattr(array, "array", array)

    def map_rows(self, *args: Any, **options: Any) -> Any:
        total, arrays = super().map_rows(*args, **options)
        return total, tuple(np.asarray(array) for array in arrays)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster(2) as running:
        yield running


@pytest.fixture(autouse=True)
def few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many blocks, and tasks, whatever the number of rows."""

    def cut(indptr: Any, *_: Any, **__: Any) -> list[tuple[int, int]]:
        edges = np.linspace(0, len(indptr) - 1, N_BLOCKS + 1).astype(int).tolist()
        return list(itertools.pairwise(edges))

    for place in (*SMALL_BLOCKS, "allocation.inference.distributed"):
        monkeypatch.setattr(f"partwise.{place}.row_blocks", cut)


def bytes_of_an_iteration(case: str, engine: CountingEngine, n_rows: int) -> float:
    kind, parameters = CASES[case]
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.5, 10.0, size=(n_rows, 3)) @ rng.dirichlet(np.ones(N_FEATURES), size=3))
    marks: list[int] = []

    def mark(iteration: int, state: Any, trace: Any) -> None:
        marks.append(engine.n_bytes)

    model = kind(N_COMPONENTS, random_state=0, engine=engine, callbacks=[mark], **parameters)
    model.fit((X > 1).astype(int) if kind is BinaryNMF else X)
    # The first iteration sends data and the first state, and the last of a sampler is the only one that is kept.
    return (marks[-2] - marks[0]) / (len(marks) - 2)


EACH_CASE = pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case in QUICK else [pytest.mark.slow]) for case in CASES]
)


@EACH_CASE
def test_only_statistics_of_features_travel(client: Any, case: str) -> None:
    few, many = (bytes_of_an_iteration(case, CountingEngine(client), n_rows) for n_rows in (N_ROWS, 4 * N_ROWS))
    assert many < 1.1 * few
    # A row of activations more for each row would be 8 K more bytes.
    assert many - few < 0.1 * 8 * N_COMPONENTS * 3 * N_ROWS


@EACH_CASE
def test_state_that_the_client_holds_would_be_seen(client: Any, case: str) -> None:
    few, many = (bytes_of_an_iteration(case, ClientHolds(client), n_rows) for n_rows in (N_ROWS, 4 * N_ROWS))
    assert many > 1.5 * few
