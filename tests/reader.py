"""What a reader of the documentation does: the code of a page, and the small files that the pages speak of."""

from __future__ import annotations

import gzip
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from partwise.plotting import signature_channels

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    code: str
    line: int


def blocks(page: Path, *languages: str) -> list[Block]:
    """The blocks of a page in some languages, in order."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        if match["language"] in languages:
            code = re.sub(f"^{match['indent']}", "", match["code"], flags=re.MULTILINE)
            found.append(Block(match["language"], code, text.count("\n", 0, match.start("code")) + 1))
    return found


def commands(block: Block) -> list[list[str]]:
    """The `partwise` commands of a console block: lines after a dollar sign, with their continuations.

    Papers are not reproduced: that takes minutes to hours, and has tests of its own in tests/reproduce.
    """
    lines = block.code.replace("\\\n", " ").splitlines()
    words = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if line.startswith("$ ")]
    return [line for line in words if line and line[0] == "partwise" and line[1:2] != ["reproduce"]]


def write_reader_files(tmp_path: Path) -> None:
    """Write the small files that the pages speak of."""
    rng = np.random.default_rng(0)
    parts = rng.dirichlet(np.full(60, 0.1), size=4)
    for name, n_samples in (("counts", 80), ("new_counts", 20)):
        X = rng.poisson(rng.gamma(0.5, 60.0, size=(n_samples, 4)) @ parts)
        sp.save_npz(tmp_path / f"{name}.npz", sp.csr_array(X))
    tumours = np.random.default_rng(1)
    signatures = tumours.dirichlet(np.full(96, 0.1), size=4)
    catalogue = tumours.poisson(tumours.gamma(0.5, 60.0, size=(20, 4)) @ signatures)
    for name, labels, table in (("catalogue", "tumour", catalogue), ("signatures", "signature", signatures)):
        with (tmp_path / f"{name}.tsv").open("w", encoding="utf-8") as file:
            print("type", *(f"{labels}{n}" for n in range(len(table))), sep="\t", file=file)
            for channel, row in zip(signature_channels(), table.T, strict=True):
                print(channel, *row, sep="\t", file=file)
    for name, n_calls in (("unvotes_coldwar_absna.csv.gz", 60), ("new_votes.csv", 10)):
        votes = rng.random((30, n_calls)) < rng.random((3, n_calls))[np.arange(30) % 3]
        cells = np.where(rng.random(votes.shape) < 0.2, "", votes.astype(int).astype(str))
        lines = ["row," + ",".join(map(str, range(n_calls)))]
        lines += [f"country{n}," + ",".join(row) for n, row in enumerate(cells)]
        text = ("\n".join(lines) + "\n").encode()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    words = [["goal", "match", "team", "coach"], ["vote", "law", "court", "party"], ["cell", "gene", "blood", "drug"]]
    posts = ["id,source,year,body"]
    for n in range(24):
        text = " ".join(rng.choice(words[n % 3], size=30))
        (tmp_path / "articles" / f"desk{n % 2}").mkdir(parents=True, exist_ok=True)
        (tmp_path / "articles" / f"desk{n % 2}" / f"story{n}.txt").write_text(text)
        posts.append(f"post{n},blog{n % 2},{2000 + n % 4},{text} more")
    (tmp_path / "posts.csv").write_text("\n".join(posts) + "\n")
