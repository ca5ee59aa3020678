"""Draws the figures of the tutorials, by running the code and the commands of their pages.

``python docs/images/draw_tutorials.py`` draws all, and ``python docs/images/draw_tutorials.py text cells`` those of two
pages. The votes in the United Nations need the data of ``PARTWISE_DATA``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

TUTORIALS = Path(__file__).parents[1] / "tutorials"
# Figures that the code of a page writes. Blocks after the figure are not run.
FIGURES = {"text": "words.png", "cells": "structure.png", "signatures": "own.png", "plays": "tastes.png"}
UNITED_NATIONS = """
cp "$PARTWISE_DATA"/nbmf/unvotes_coldwar_absna.csv.gz votes.csv.gz
partwise fit votes.csv.gz --transpose --model beta-dir --seed 0 --threads 2 -o votes.partwise
partwise plot votes.partwise -o blocs.png
"""


def main(pages: list[str]) -> None:
    """Draw the figures of these pages."""
    for page in pages or [*FIGURES, "votes"]:
        with tempfile.TemporaryDirectory() as name:
            folder, figure = Path(name), FIGURES.get(page, "blocs.png")
            if page == "votes":
                _run_commands(UNITED_NATIONS, folder)
            else:
                _run_page((TUTORIALS / f"{page}.md").read_text("utf-8"), folder, figure)
            (TUTORIALS / page).mkdir(exist_ok=True)
            picture = Image.open(folder / figure).convert("RGB").quantize(256)
            picture.save(TUTORIALS / page / figure, optimize=True)


def _run_page(text: str, folder: Path, figure: str) -> None:
    code = ""
    for language, block in re.findall(r"^```(python|console)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if language == "python":
            code += block
            continue
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)  # later blocks use names of earlier ones
        _run_commands(block.replace("$ ", ""), folder)
        if (folder / figure).exists():
            return


def _run_commands(commands: str, folder: Path) -> None:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-ec", commands], cwd=folder, env=environment, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
