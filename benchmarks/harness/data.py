"""The data of the benchmarks: synthetic by seed, and real ones through the environment variable PARTWISE_DATA."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Dataset:
    """A short key, a name for the table, and how to get the counts; ``missing`` says why they cannot be had."""

    key: str
    name: str
    load: Callable[[], Any]
    missing: str = ""


def poisson_counts(n_rows: int, n_columns: int, n_components: int, density: float, seed: int) -> Any:
    """Counts from a Poisson model with sparse gamma factors, scaled to an expected share of nonzeros; CSR, int32."""
    rng = np.random.default_rng(seed)
    dictionary = rng.gamma(0.1, size=(n_columns, n_components))
    dictionary /= dictionary.sum(axis=0)
    rates = rng.gamma(0.3, size=(n_rows, n_components)) @ dictionary.T
    low, high = -50.0, 50.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        dense_enough = -np.expm1(-rates * np.exp(middle)).mean() >= density
        low, high = (low, middle) if dense_enough else (middle, high)
    return sp.csr_matrix(rng.poisson(rates * np.exp(high)).astype(np.int32))


def small_counts() -> Any:
    """A few rows, to compile kernels with."""
    return poisson_counts(60, 50, 3, 0.3, seed=1)


SYNTHETIC = Dataset(
    "synthetic",
    "synthetic, 2000 x 3000, 5% nonzeros, seed 0",
    lambda: poisson_counts(2000, 3000, 10, 0.05, seed=0),
)


def real(name: str) -> Dataset:
    """A file of the folder ``counts`` of PARTWISE_DATA."""
    folder = os.environ.get("PARTWISE_DATA")
    if not folder:
        return Dataset(name, name, _nothing, "PARTWISE_DATA is not set")
    path = Path(folder) / "counts" / f"{name}.npz"
    if not path.exists():
        return Dataset(name, name, _nothing, f"PARTWISE_DATA has no file counts/{name}.npz")
    return Dataset(name, name, lambda: _read(path))


def by_key(key: str) -> Dataset:
    """The synthetic data, or real data by name."""
    return SYNTHETIC if key == SYNTHETIC.key else real(key)


def cases(*, synthetic: tuple[int, ...], nips: tuple[int, ...]) -> Iterator[tuple[Dataset, int]]:
    """The two data sets of the foundation's benchmarks, each with some numbers of components."""
    for dataset, numbers in ((SYNTHETIC, synthetic), (real("nips_uci7605"), nips)):
        for n_components in numbers:
            yield dataset, n_components


def _nothing() -> Any:
    raise LookupError("these data cannot be had")


def _read(path: Path) -> Any:
    with np.load(path, allow_pickle=False) as arrays:
        return sp.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=arrays["shape"])
