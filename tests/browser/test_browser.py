"""Reports in a real browser: they load in silence, do as they are told, and hostile labels do nothing."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from browser_pages import only, texts, wait_for

from hostile_labels import HOSTILE
from partwise.io.writing_tables import neutralised
from partwise.reporting.encoding import visible

keys = pytest.importorskip("selenium.webdriver.common.keys", reason="make test-browser installs selenium").Keys

pytestmark = pytest.mark.browser

SCREENSHOTS = Path("out") / "browser"
PAGES = ["counts", "images", "bits", "given", "hostile", "large"]


@pytest.mark.parametrize("name", PAGES)
def test_page_loads_in_silence(name: str, opened) -> None:
    page = opened(name)
    assert only(page, "html").get_attribute("data-ready") == "yes"
    assert page.get_log("browser") == []
    # nothing was fetched beside the file itself (pictures are in the page)
    fetched = page.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [address for address in fetched if not address.startswith("data:")] == []
    height = page.execute_script("return document.documentElement.scrollHeight")
    page.set_window_size(1280, min(height + 100, 8000))
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    assert page.save_screenshot(str(SCREENSHOTS / f"{name}.png"))


def test_slider_sorts_features_by_relevance(opened, counts) -> None:
    model, table = counts
    page = opened("counts")
    weights = model.transform(table).sum(axis=0) * model.components_.sum(axis=1)
    weights /= weights.sum()
    inside = model.components_ / model.components_.sum(axis=1, keepdims=True)
    part = int(np.argmax(weights))
    overall = weights @ inside

    def expected(balance: float) -> list[str]:
        present = np.flatnonzero(inside[part])
        relevance = np.log(inside[part, present]) - (1 - balance) * np.log(overall[present])
        first = np.lexsort((-inside[part, present], -np.round(relevance, 3)))[:8]
        return [str(table.column_labels[f]) for f in present[first]]

    shown = {}
    slider = only(page, "#relevance")
    for key, balance in ((keys.END, 1.0), (keys.HOME, 0.0)):
        slider.send_keys(key)
        assert texts(page, "#relevance-value") == [f"{balance:.2f}"]
        shown[balance] = texts(page, "#feature-rows td:first-child")[:8]
        assert shown[balance] == expected(balance)
    assert shown[0.0] != shown[1.0]
    slider.send_keys(keys.ARROW_RIGHT)
    assert texts(page, "#relevance-value") == ["0.05"]


def test_parts_are_chosen_by_mouse_and_keyboard(opened) -> None:
    page = opened("counts")
    first, second, *_ = page.find_elements("css selector", "#part-list button")
    before = texts(page, "#feature-rows td:first-child")
    second.click()
    assert second.get_attribute("aria-current") == "true"
    assert first.get_attribute("aria-current") == "false"
    assert texts(page, "#feature-rows td:first-child") != before
    second.send_keys(keys.ARROW_UP)
    assert texts(page, "#feature-rows td:first-child") == before
    assert page.switch_to.active_element == first


def test_features_are_found_in_their_parts(opened) -> None:
    page = opened("counts")
    name = texts(page, "#feature-rows td:first-child")[0]
    only(page, "#feature-search").send_keys(name.upper())
    found = page.find_elements("css selector", "#features-found li")
    assert name in [one.find_element("css selector", "bdi").text for one in found]
    button = page.find_elements("css selector", "#features-found button")[-1]
    part = button.find_element("css selector", "bdi").text
    button.click()
    assert texts(page, "#part-title bdi") == [part]


def test_pictures_choose_parts(opened) -> None:
    page = opened("images")
    pictures = page.find_elements("css selector", "#gallery img")
    assert len(pictures) == 10
    loaded = page.execute_script("return arguments[0].map((one) => one.naturalWidth)", pictures)
    assert loaded == [8] * 10
    pictures[3].click()
    chosen = page.find_elements("css selector", "#part-list [aria-current=true]")
    assert [button.get_attribute("data-part") for button in chosen] == ["3"]


def test_search_finds_samples_and_groups(opened, counts) -> None:
    _, table = counts
    page = opened("counts")
    box = only(page, "#sample-search")
    assert texts(page, "#sample-count") == ["120 of 120 samples"]
    wanted = str(table.row_labels[17])
    box.send_keys(wanted.upper())
    matching = [str(label) for label in table.row_labels if wanted.lower() in str(label).lower()]
    assert texts(page, "#sample-rows td:first-child") == matching[:25]
    assert texts(page, "#sample-count") == [f"{len(matching)} of 120 samples"]
    box.clear()
    box.send_keys("south")
    assert texts(page, "#sample-count") == ["40 of 120 samples"]
    assert set(texts(page, "#sample-rows td:nth-child(2)")) == {"south"}
    box.send_keys(" of nowhere")
    assert texts(page, "#sample-count") == ["0 of 120 samples"]
    assert texts(page, "#sample-rows tr") == []


def test_many_samples_are_searched_and_sorted(opened) -> None:
    page = opened("large")
    only(page, "#sample-search").send_keys("cell 99999")
    assert texts(page, "#sample-rows td:first-child") == ["cell 99999"]
    only(page, "#sample-search").send_keys(keys.CONTROL, "a", keys.BACKSPACE)
    assert texts(page, "#sample-count") == ["100000 of 100000 samples"]
    head = only(page, "#sample-head th:first-child button")
    head.click()
    head.click()
    assert texts(page, "#sample-rows td:first-child")[:2] == ["cell 99999", "cell 99998"]
    assert texts(page, "#structure-plot .note") == ["600 of 100000 samples, evenly spaced."]


def test_samples_are_sorted_and_paged(opened, counts) -> None:
    _, table = counts
    page = opened("counts")
    totals = np.asarray(table.matrix.sum(axis=1)).ravel()
    head = page.find_elements("css selector", "#sample-head th")[2]
    button = head.find_element("css selector", "button")
    button.click()
    assert head.get_attribute("aria-sort") == "descending"
    assert texts(page, "#sample-rows td:nth-child(3)") == [str(int(total)) for total in np.sort(totals)[::-1][:25]]
    button.send_keys(keys.ENTER)
    assert head.get_attribute("aria-sort") == "ascending"
    assert texts(page, "#sample-rows td:nth-child(3)") == [str(int(total)) for total in np.sort(totals)[:25]]
    only(page, "#page-on").click()
    assert texts(page, "#page-number") == ["page 2 of 5"]
    assert texts(page, "#sample-rows td:nth-child(3)") == [str(int(total)) for total in np.sort(totals)[25:50]]


def test_structure_is_walked_and_sorted_by_keyboard(opened) -> None:
    page = opened("counts")
    picture = only(page, "#structure-plot svg")
    picture.send_keys(keys.HOME)
    first = texts(page, "#structure-readout")
    picture.send_keys(keys.ARROW_RIGHT)
    assert texts(page, "#structure-readout") != first
    before = page.execute_script("return document.querySelector('#structure-plot path').getAttribute('d')")
    legend = page.find_elements("css selector", "#structure-legend button")
    legend[1].send_keys(keys.SPACE)
    assert legend[1].get_attribute("aria-pressed") == "true"
    after = page.execute_script("return document.querySelector('#structure-plot path').getAttribute('d')")
    assert after != before
    assert texts(page, "#structure-plot text") == ["north", "south", "west"]


def test_everything_is_reached_by_tab(opened) -> None:
    page = opened("counts")
    reached = []
    for _ in range(200):
        page.switch_to.active_element.send_keys(keys.TAB)
        name = page.execute_script(
            "const at = document.activeElement; return at.id || at.closest('[id]')?.id || at.tagName.toLowerCase()"
        )
        reached.append(name)
        visible_ring = page.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
        assert visible_ring != "none", name
        if name == "trace-column":
            break
    wanted = {
        "theme",
        "feature-search",
        "part-list",
        "relevance",
        "download-features",
        "structure-legend",
        "structure-plot",
    }
    wanted |= {"sample-search", "sample-part", "download-samples", "sample-head", "page-on", "trace-column"}
    assert wanted <= set(reached)
    assert "body" not in reached[:1]


@pytest.mark.parametrize("name", PAGES)
def test_controls_have_names_and_pictures_descriptions(name: str, opened) -> None:
    page = opened(name)
    nameless = page.execute_script(
        """return [...document.querySelectorAll("button, input, select, svg[role=img], img")].filter((node) =>
             !(node.getAttribute("aria-label") || node.getAttribute("alt") || node.textContent.trim()
               || [...(node.labels || [])].some((label) => label.textContent.trim()))).map((node) => node.outerHTML)"""
    )
    assert nameless == []
    assert texts(page, "h1") != [""]


@pytest.mark.parametrize("name", PAGES)
def test_narrow_windows_need_no_sideways_scrolling(name: str, opened) -> None:
    page = opened(name)
    page.set_window_size(500, 900)
    wide = page.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1]


def test_theme_is_switched(opened) -> None:
    page = opened("counts")

    def background() -> str:
        colour: str = page.execute_script("return getComputedStyle(document.body).backgroundColor")
        return colour

    before = background()
    only(page, "#theme").click()
    assert background() != before
    only(page, "#theme").click()
    assert background() == before


def test_chains_and_checks_are_shown(opened) -> None:
    page = opened("bits")
    assert "R-hat" in texts(page, "#diagnostics-view thead")[0]
    assert len(page.find_elements("css selector", "#diagnostics-view .panels svg")) == 3


def test_hostile_labels_do_nothing(opened) -> None:
    page = opened("hostile")
    for button in page.find_elements(
        "css selector", "#part-list button, #structure-legend button, #sample-head button"
    ):
        button.click()
    only(page, "#structure-plot svg").send_keys(keys.END)
    only(page, "#sample-search").send_keys("script")
    assert texts(page, "#sample-rows td:first-child")
    only(page, "#sample-search").send_keys(keys.CONTROL, "a", keys.BACKSPACE)
    assert page.execute_script("return typeof window.pwned") == "undefined"
    assert page.find_elements("css selector", "img, iframe, [onerror], [onmouseover], main script") == []
    assert page.title == HOSTILE[0]
    assert texts(page, "h1") == [HOSTILE[0]]
    harmless = {visible(label) for label in HOSTILE}
    assert set(texts(page, "#sample-rows td:first-child > div > bdi")) == harmless
    assert set(texts(page, "#feature-rows td:first-child")) <= harmless
    assert page.get_log("browser") == []


def test_policy_stops_what_it_should(opened) -> None:
    page = opened("hostile")
    stopped = page.execute_script(
        """const tried = {};
           try { document.body.innerHTML = "<b>x</b>"; tried.markup = true; } catch { tried.markup = false; }
           try { const one = document.createElement("script"); one.textContent = "window.pwned = 1";
                 document.body.append(one); } catch {}
           try { document.body.setAttribute("onclick", "window.pwned = 1"); document.body.click(); } catch {}
           tried.script = typeof window.pwned !== "undefined";
           return tried;"""
    )
    assert stopped == {"markup": False, "script": False}
    answer = page.execute_async_script(
        """const done = arguments[0];
           fetch("http://127.0.0.1:9/").then(() => done("sent"), (error) => done(String(error)))"""
    )
    assert answer.startswith("TypeError")
    said = [entry["message"] for entry in page.get_log("browser")]
    assert any("Content Security Policy" in message and "127.0.0.1" in message for message in said)


@pytest.mark.parametrize(
    ("button", "name"), [("#download-samples", "samples.csv"), ("#download-features", "features.csv")]
)
def test_downloaded_cells_are_no_formulas(button: str, name: str, opened) -> None:
    page = opened("hostile")
    target = page.downloads / name
    target.unlink(missing_ok=True)
    only(page, button).click()
    wait_for(lambda: target.exists() and target.stat().st_size > 0)
    with target.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    labels = {row[0 if name == "samples.csv" else 1] for row in rows}
    assert labels == {neutralised(visible(label)) for label in HOSTILE}
    cells = [cell for row in rows for cell in row]
    assert not [cell for cell in cells if cell[:1] in "=+@" and cell] + [
        cell for cell in cells if cell.startswith("-1+")
    ]


def test_page_is_printed_without_controls(opened) -> None:
    page = opened("counts")
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert not only(page, "nav").is_displayed()
        assert not only(page, "#relevance").is_displayed()
        assert only(page, "#feature-rows").is_displayed()
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
