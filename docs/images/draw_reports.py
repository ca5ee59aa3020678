"""Draws the pictures of reports in the docs, by running the commands of their pages.

``python docs/images/draw_reports.py`` needs Chromium and, for two of the three, the data of ``PARTWISE_DATA``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

DOCS = Path(__file__).parents[1]
DATA = Path(os.environ["PARTWISE_DATA"])
_FENCE = r"^```{}\n(.*?)^```$"


def main() -> None:
    """Draw all three."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in ("counts/reuters395.npz", "counts/reuters395.vocab.txt.gz", "nbmf/unvotes.csv.gz"):
            shutil.copy(DATA / file, folder)
        text = (DOCS / "tutorials" / "text.md").read_text("utf-8")
        subprocess.run([sys.executable, "-c", _block(text, "python", 0)], cwd=folder, check=True)
        _run(_block(text, "console", 0).replace("$ ", ""), folder)
        _photograph(folder, "report.html", DOCS / "tutorials" / "text" / "report.png")
        page = (DOCS / "how-to" / "report.md").read_text("utf-8")
        for number, name in enumerate(("reuters", "unvotes")):
            _run(_block(page, "output", number), folder)
            _photograph(folder, f"{name}.html", DOCS / "how-to" / "report" / f"{name}.png")


def _block(text: str, language: str, number: int) -> str:
    return re.findall(_FENCE.format(language), text, re.MULTILINE | re.DOTALL)[number]


def _run(commands: str, folder: Path) -> None:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-ec", commands], cwd=folder, env=environment, check=True)


def _photograph(folder: Path, page: str, picture: Path) -> None:
    browser = next(path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name)))
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/browser"]
    where = ["--window-size=1100,1500", f"--screenshot={picture}", (folder / page).as_uri()]
    subprocess.run([browser, *options, *where], check=True)
    Image.open(picture).convert("RGB").quantize(256).save(picture, optimize=True)


if __name__ == "__main__":
    main()
