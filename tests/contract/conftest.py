from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from toy_distribution import install

from partwise._registry import registered_models


@pytest.fixture(scope="session")
def toy_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of another distribution, for the path of Python."""
    return install(tmp_path_factory.mktemp("toy"))


@pytest.fixture
def toy_installed(toy_folder: Path) -> Iterator[None]:
    """The model is installed in this process."""
    sys.path.insert(0, str(toy_folder))
    registered_models.cache_clear()
    try:
        yield
    finally:
        sys.path.remove(str(toy_folder))
        registered_models.cache_clear()
