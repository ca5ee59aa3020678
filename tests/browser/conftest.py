"""A headless Chromium, and pages of reports to open in it. `make test-browser` sets up what is needed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import partwise
from hostile_labels import HOSTILE
from partwise import BinaryNMF, PoissonNMF
from partwise.datasets import DIGIT_SHAPE, digits, simulate_poisson
from partwise.io.table import Table

PAGES = ("counts", "images", "bits", "given", "hostile", "large", "texts")


def _program(*names: str) -> str:
    found = next((path for path in map(shutil.which, names) if path is not None), None)
    if found is None:
        pytest.fail(f"there is no {names[0]} here: `make test-browser` installs it, or says what is missing")
    return found


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One browser for all tests, without window and, as tests may run as root, without its sandbox."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="make test-browser installs selenium")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = _program("chromium", "chromium-browser", "google-chrome")
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900"):
        options.add_argument(argument)
    downloads = tmp_path_factory.mktemp("downloads")
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(_program("chromedriver")))
    driver.downloads = downloads
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def opened(browser: Any, pages: dict[str, Path]) -> Callable[[str], Any]:
    """Open one of the pages anew; what the console said before is forgotten."""

    def open_page(name: str) -> Any:
        browser.set_window_size(1280, 900)
        browser.get(pages[name].as_uri())
        browser.get_log("browser")
        browser.refresh()
        return browser

    return open_page


@pytest.fixture(scope="session")
def counts() -> tuple[PoissonNMF, Table]:
    """A model of counts and its data."""
    table, _, _ = simulate_poisson(120, 80, 4, random_state=1)
    return PoissonNMF(4, random_state=0).fit(table), table


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory, counts: tuple[PoissonNMF, Table]) -> dict[str, Path]:
    """Reports on counts, images, bits with missing cells, given parts, many samples, and with hostile labels."""
    folder = tmp_path_factory.mktemp("reports")
    rng = np.random.default_rng(0)
    made: dict[str, Path] = {name: folder / f"{name}.html" for name in PAGES}
    model, table = counts
    groups = [("north", "south", "west")[n % 3] for n in range(120)]
    partwise.report(model, table, output=made["counts"], title="Counts", groups=groups)

    pictures = digits()
    strokes = PoissonNMF(10, max_iter=20, tol=0, random_state=0).fit(pictures)
    partwise.report(strokes, pictures, output=made["images"], title="Images", image_shape=DIGIT_SHAPE)

    bits = (rng.random((60, 20)) < np.where(np.arange(60)[:, None] % 2 == np.arange(20) % 2, 0.9, 0.1)).astype(float)
    bits[rng.random(bits.shape) < 0.1] = np.nan
    votes = BinaryNMF(4, n_draws=40, burn_in=40, n_chains=2, random_state=0).fit(bits)
    partwise.report(votes, bits, output=made["bits"], title="Bits")

    many = sp.csr_array((np.ones(300_000, dtype=np.int64), rng.integers(50, size=300_000), np.arange(0, 300_001, 3)))
    cells = Table(many, np.array([f"cell {n}" for n in range(100_000)]))
    blocks = PoissonNMF.from_components(np.kron(np.eye(5), np.ones(10)))
    partwise.report(blocks, cells, output=made["large"], title="Many samples")

    partwise.report(PoissonNMF.from_components(np.eye(3)), output=made["given"], title="Given parts")

    labels = np.array(HOSTILE, dtype=np.str_)
    hostile = Table(rng.poisson(3.0, size=(len(HOSTILE), len(HOSTILE))), labels, labels)
    fitted = PoissonNMF(3, random_state=0).fit(hostile)
    fitted.name_parts(labels[:3])
    times = [str(2000 + n % 3) for n in range(len(HOSTILE))]
    long = [text + " word" * 200_000 for text in HOSTILE]
    partwise.report(fitted, hostile, output=made["hostile"], title=HOSTILE[0], groups=HOSTILE, times=times, texts=long)

    stories = simulate_poisson(200, 300, 50, random_state=2).table
    told = stories.with_metadata(
        group=[("north", "south")[n % 2] for n in range(200)],
        time=[str(1990 + n % 5) for n in range(200)],
        text=[f"the story of sample {n}, which tells of whales" for n in range(200)],
    )
    many_parts = PoissonNMF(50, max_iter=10, tol=0, random_state=0).fit(told)
    partwise.report(many_parts, told, output=made["texts"], title="Fifty parts")
    return made
