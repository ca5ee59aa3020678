"""The documentation, opened from a folder: search without a server or a network, nothing wider than the screen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_pages import only, texts, wait_for

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True, timeout=300)
    return folder


@pytest.fixture
def widths(browser: Any) -> Iterator[Any]:
    """Set the width of the screen; undone at the end."""

    def set_width(width: int, scheme: str = "light") -> None:
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    yield set_width
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.fixture
def offline(browser: Any) -> Iterator[None]:
    """The browser without a network."""
    rates = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": True, **rates})
    yield
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": False, **rates})
    browser.execute_cdp_cmd("Network.disable", {})


@pytest.mark.parametrize("page", ["index.html", "how-to/seeds.html"])
def test_search_works_from_a_folder(browser: Any, offline: None, site: Path, page: str) -> None:
    browser.get_log("browser")
    browser.get((site / page).as_uri())
    only(browser, "input.md-search__input").send_keys("perplexity")
    links = ".md-search-result__link"
    wait_for(lambda: texts(browser, links))
    addresses = browser.execute_script(f"return [...document.querySelectorAll('{links}')].map((one) => one.href)")
    assert any("/glossary.html" in address for address in addresses)
    assert all((site / address.split("?")[0].split("#")[0].split(f"{site}/")[1]).is_file() for address in addresses)
    # without a network: what a page would load from there is a line of the console
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_wider_than_the_screen(browser: Any, site: Path, widths: Any, width: int) -> None:
    widths(width)
    wide = []
    for page in sorted(site.rglob("*.html")):
        if page.name != "404.html":  # its links start at the root of a server
            browser.get(page.as_uri())
            if browser.execute_script("return document.documentElement.scrollWidth > innerWidth + 1"):
                wide.append(page.relative_to(site).as_posix())
    assert wide == []


def test_dark_mode(browser: Any, site: Path, widths: Any) -> None:
    colour = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    for scheme, dark in (("light", False), ("dark", True), ("light", False)):  # each visit, whatever the last one was
        widths(1280, scheme)
        browser.get((site / "index.html").as_uri())
        assert (max(browser.execute_script(colour)) < 100) == dark
