"""Draws the pictures of docs/how-to/figures.md when the site is built, by running the code of that page."""

from __future__ import annotations

import contextlib
import re
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_PAGES = {"how-to/figures.md": "how-to/figures"}  # pages whose code is run, and where what it saves appears
_CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

_drawn: dict[str, tempfile.TemporaryDirectory[str]] = {}  # gone when the build ends


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the pictures to the files of the site."""
    for page, folder in _PAGES.items():
        for picture in sorted(pictures(Path(config["docs_dir"]) / page).glob("*.png")):
            files.append(File.generated(config, f"{folder}/{picture.name}", abs_src_path=str(picture)))
    return files


def pictures(page: Path) -> Path:
    """Run the code of a page in a folder of its own, once as long as the page stays the same."""
    text = page.read_text(encoding="utf-8")
    if text not in _drawn:
        folder = tempfile.TemporaryDirectory(prefix="partwise-docs-")
        with contextlib.chdir(folder.name):
            exec(compile("\n".join(_CODE.findall(text)), page, "exec"), {"__name__": "__main__"})
        _drawn[text] = folder
    return Path(_drawn[text].name)
