"""Fixtures that several test files share."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import scipy.sparse as sp

# Examples are fixed in CI, so that a change is judged by itself and not by the luck of the draw. No deadline: the first
# example compiles kernels.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")

SEED = 20_250_301


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data, or a skip that says how to get it."""
    name = os.environ.get("PARTWISE_DATA")
    if not name:
        pytest.skip("PARTWISE_DATA is not set: this test reads real data from the folder that it names")
    folder = Path(name)
    if not folder.is_dir():
        pytest.skip(f"PARTWISE_DATA names {name}, which is not a folder")
    return folder


@pytest.fixture
def rng() -> np.random.Generator:
    """The same random numbers for every test."""
    return np.random.default_rng(SEED)


@pytest.fixture
def small_counts(rng: np.random.Generator) -> np.ndarray:
    """Counts of 40 samples x 25 features made of three parts, about half of them zero."""
    dictionary = rng.dirichlet(np.full(25, 0.2), size=3).T
    activations = rng.gamma(0.7, 40.0, size=(40, 3))
    return rng.poisson(activations @ dictionary.T)


@pytest.fixture
def small_sparse_counts(small_counts: np.ndarray) -> sp.csr_array:
    """The same counts as a CSR array."""
    return sp.csr_array(small_counts)


@pytest.fixture
def small_bits(small_counts: np.ndarray) -> np.ndarray:
    """A 0/1 table: where the small counts are positive."""
    return (small_counts > 0).astype(np.int8)


@pytest.fixture
def small_missing(rng: np.random.Generator, small_counts: np.ndarray) -> np.ndarray:
    """A mask of the small counts, true where a cell was not observed: a tenth of the cells."""
    return rng.random(small_counts.shape) < 0.1
