"""The map, names, typical samples, groups and times of a report with fifty parts, at three widths."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from browser_pages import only, texts, wait_for

import partwise
from partwise import PoissonNMF

keys = pytest.importorskip("selenium.webdriver.common.keys", reason="make test-browser installs selenium").Keys

pytestmark = pytest.mark.browser

SCREENSHOTS = Path("out") / "browser"
WIDTHS = [400, 800, 1280]


def at_width(page, width: int) -> None:  # type: ignore[no-untyped-def]
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page.refresh()


@pytest.fixture
def page(opened):  # type: ignore[no-untyped-def]
    found = opened("texts")
    yield found
    found.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_fifty_parts_fit_the_width(width: int, theme: str, page) -> None:
    at_width(page, width)
    page.execute_script(f"document.documentElement.dataset.theme = '{theme}'")
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    assert len(page.find_elements("css selector", "#map circle")) == 50
    assert len(texts(page, "#structure-legend button")) == 8
    # no names of the map lie on each other
    overlaps = page.execute_script(
        "const boxes = [...document.querySelectorAll('#map .names text')].map((one) => one.getBoundingClientRect());"
        "return boxes.flatMap((one, at) => boxes.slice(at + 1).filter((other) => one.left + 4 < other.right"
        " && other.left + 4 < one.right && one.top + 4 < other.bottom && other.top + 4 < one.bottom)).length"
    )
    assert overlaps == 0
    assert page.get_log("browser") == []
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    height = page.execute_script("return document.documentElement.scrollHeight")
    size = {"width": width, "height": min(height, 6000), "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    assert page.save_screenshot(str(SCREENSHOTS / f"texts-{width}-{theme}.png"))


@pytest.mark.parametrize("name", ["counts", "bits", "given", "images"])
def test_names_on_the_map_of_few_parts_do_not_hide_anything(name: str, opened) -> None:
    page = opened(name)
    shown = len(page.find_elements("css selector", "#map .names text"))
    assert shown == len(page.find_elements("css selector", "#map circle")) or name == "images"  # whose names are long
    assert shown > 0
    # no name lies on another, or on a good piece of another circle
    covered = page.execute_script(
        "const box = (one) => one.getBoundingClientRect();"
        "const all = (what) => [...document.querySelectorAll(what)].map(box);"
        "const names = all('#map .names text'), circles = all('#map circle');"
        "const meet = (one, other, edge) => one.left + edge < other.right && other.left + edge < one.right"
        " && one.top + edge < other.bottom && other.top + edge < one.bottom;"
        "return names.flatMap((one, at) => [...names.slice(at + 1).filter((other) => meet(one, other, 3)),"
        " ...circles.filter((circle) => meet(one, circle, 0.2 * circle.width)"
        " && Math.abs((circle.left + circle.right - one.left - one.right) / 2) > 2)]).length"
    )
    assert covered == 0


@pytest.mark.parametrize("width", WIDTHS)
def test_a_part_is_chosen_on_the_map_and_shown_everywhere(width: int, page) -> None:
    at_width(page, width)
    picture = only(page, "#map svg")
    before = texts(page, "#part-title")
    picture.send_keys(keys.ARROW_RIGHT)
    after = texts(page, "#part-title")
    assert after != before
    name = after[0].partition(" – ")[0]
    assert only(page, "#part-name").get_attribute("value") == name
    assert name in texts(page, "#map-readout")[0]
    assert len(page.find_elements("css selector", "#map circle.chosen")) == 1
    assert texts(page, "#typical p")[0].startswith("the story of sample")
    assert len(texts(page, "#similar button")) == 4
    assert [caption.startswith(name) for caption in texts(page, "#trend-figures figcaption")] == [True, True]
    assert texts(page, "#trend-figures figure:nth-child(2) text")[-2:] == ["north", "south"]
    page.execute_script("document.querySelector('#map circle:not(.chosen)').dispatchEvent(new Event('click'))")
    assert texts(page, "#part-title") != after


def test_names_are_edited_and_come_back(page, tmp_path: Path) -> None:
    box = only(page, "#part-name")
    box.send_keys(keys.CONTROL, "a")
    box.send_keys("=whales & ships")
    box.send_keys(keys.TAB)
    assert "=whales & ships" in texts(page, "#part-title")[0]
    assert "=whales & ships" in texts(page, "#part-list li:first-child")[0]
    assert "=whales & ships" in texts(page, "#structure-legend button")
    assert "=whales & ships" in texts(page, "#sample-part option")
    only(page, "#download-names").click()
    file = page.downloads / "names.csv"
    wait_for(lambda: file.exists() and file.stat().st_size > 0)
    with file.open() as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 50
    model = PoissonNMF.from_components([[1.0]] * 50).name_parts(file)
    assert model.part_labels()[int(rows[0]["part"])] == "=whales & ships"
    model.save(tmp_path / "named.partwise")
    assert "=whales & ships" in partwise.load(tmp_path / "named.partwise").part_labels()


def test_any_part_is_shown_against_grey_and_texts_are_searched(page) -> None:
    choice = only(page, "#structure-part")
    page.execute_script("arguments[0].value = '40'; arguments[0].dispatchEvent(new Event('change'))", choice)
    assert len(page.find_elements("css selector", "#structure-plot path")) == 1
    only(page, "#sample-search").send_keys("sample 17, which")
    assert len(texts(page, "#sample-rows tr")) == 1
