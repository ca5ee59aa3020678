"""A model of another distribution: built from the page "Adding a model", and installed by pip."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "extend" / "adding-a-model.md"
_BLOCK = re.compile(r'^``` \{ \.\w+ title="(?P<file>[^"]+)" \}\n(?P<code>.*?)^```$', re.MULTILINE | re.DOTALL)
_SNIPPET = re.compile(r'^--8<-- "(?P<path>[^":]+):(?P<section>\w+)"\n', re.MULTILINE)


def files_of_the_page() -> dict[str, str]:
    """Files that the page shows, put together from its blocks in their order."""
    found: dict[str, str] = {}
    for block in _BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        found[block["file"]] = found.get(block["file"], "") + _SNIPPET.sub(_section, block["code"]) + "\n\n"
    return found


def _section(match: re.Match[str]) -> str:
    text = (ROOT / match["path"]).read_text(encoding="utf-8")
    inside = re.search(
        rf"^ *# --8<-- \[start:{match['section']}\]\n(.*?)^ *# --8<-- \[end:{match['section']}\]$", text, re.M | re.S
    )
    assert inside is not None, f"{match['path']} has no section {match['section']}"
    return inside[1]


def install(folder: Path) -> Path:
    """Write the distribution, install it with pip into a folder of its own, and return that folder."""
    source, target = folder / "source", folder / "installed"
    source.mkdir(parents=True)
    for name, text in files_of_the_page().items():
        (source / name).write_text(text, encoding="utf-8")
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    subprocess.run([*words, "--target", str(target), str(source)], check=True, capture_output=True, text=True)
    return target
