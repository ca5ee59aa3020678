"""Examples of docstrings that read published data are run where there are some."""

import os

import pytest


@pytest.fixture(autouse=True)
def published_data(request: pytest.FixtureRequest) -> None:
    """Skip the examples of functions that read the folder of PARTWISE_DATA where that is not set."""
    reading = ("datasets.folder.data_folder", "datasets.published.load_")
    if any(f"partwise.{name}" in request.node.name for name in reading) and not os.environ.get("PARTWISE_DATA"):
        pytest.skip("PARTWISE_DATA is not set")
