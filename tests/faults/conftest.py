"""Real faults, nothing mocked: `make test-faults` runs these tests, and skips what a machine does not allow."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder are marked."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.faults)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    folder = tmp_path / "small disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a disk of 2 MB cannot be mounted here ({mounted.stderr.strip()}): run as root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=False)


@pytest.fixture
def fill() -> Callable[[Path, int], Path]:
    """Leave only some bytes free on the disk of a folder."""

    def fill(folder: Path, left: int = 0) -> Path:
        filler = folder / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass
            size = filler.stat().st_size
        os.truncate(filler, max(0, size - left))
        return filler

    return fill


@pytest.fixture(scope="session")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of counts that takes some seconds to fit if it is told to."""
    path = tmp_path_factory.mktemp("faults") / "counts.npz"
    rng = np.random.default_rng(0)
    rates = rng.gamma(0.5, 60.0, size=(300, 3)) @ rng.dirichlet(np.full(80, 0.2), size=3)
    sp.save_npz(path, sp.csr_matrix(rng.poisson(rates)))
    return path
