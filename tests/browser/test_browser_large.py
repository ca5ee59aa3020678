"""A report on 20,000 features and 100,000 samples: below 10 MB, silent, and its slider and searches answer at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser_pages import only, texts, wait_for

import partwise
from large_tables import N_SAMPLES, large_table

keys = pytest.importorskip("selenium.webdriver.common.keys", reason="make test-browser installs selenium").Keys

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("large") / "large.html"
    model, table = large_table()
    partwise.report(model, table, output=path, groups=[f"donor {n % 7}" for n in range(N_SAMPLES)])
    assert path.stat().st_size < 10e6
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(path.as_uri())
    wait_for(lambda: only(browser, "html").get_attribute("data-ready") == "yes")
    return browser


def quickly(action: Callable[[], Any]) -> None:
    """What a person does is answered within 10 seconds on a busy machine (a fraction of one on a quiet machine)."""
    start = time.perf_counter()
    action()
    assert time.perf_counter() - start < 10.0


def test_loads_in_silence(page: Any) -> None:
    assert page.get_log("browser") == []
    Path("out/browser").mkdir(parents=True, exist_ok=True)
    assert page.save_screenshot("out/browser/large_table.png")


def test_slider_changes_the_features_of_a_part(page: Any) -> None:
    slider = only(page, "#relevance")
    shown = []
    for key, value in ((keys.END, "1.00"), (keys.HOME, "0.00")):
        quickly(lambda key=key: slider.send_keys(key))
        assert texts(page, "#relevance-value") == [value]
        shown.append(texts(page, "#feature-rows td:first-child"))
    assert shown[0] != shown[1]
    assert all(name.startswith("ENSG") for names in shown for name in names)
    assert page.get_log("browser") == []


def test_samples_are_searched(page: Any) -> None:
    field = only(page, "#sample-search")
    quickly(lambda: field.send_keys("CGCA-99999"))
    assert texts(page, "#sample-rows td:first-child") == ["AAACCTGAGCATCGCA-99999"]
    quickly(lambda: field.send_keys(keys.CONTROL, "a", keys.BACKSPACE))
    assert texts(page, "#sample-count") == ["100000 of 100000 samples"]
    assert page.get_log("browser") == []
