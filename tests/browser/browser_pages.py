"""Looking at a page in the browser."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def texts(page: Any, selector: str) -> list[str]:
    """What is shown in some elements, in order."""
    script = "return [...document.querySelectorAll(arguments[0])].map((node) => node.textContent)"
    found: list[str] = page.execute_script(script, selector)
    return found


def only(page: Any, selector: str) -> Any:
    return page.find_element("css selector", selector)


def wait_for(found: Callable[[], Any]) -> Any:
    """What becomes true within ten seconds."""
    deadline = time.monotonic() + 10
    while not (value := found()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return value
