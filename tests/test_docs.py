"""The documentation is true: its code runs, its site builds without warnings or network, its picture is the code's."""

from __future__ import annotations

import gzip
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from partwise.io.reading import FORMATS
from partwise.plotting import signature_channels

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
SKELETONS = sorted((DOCS / "skeletons").glob("*.py"))
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


def run_command(words: list[str]) -> None:
    """Run a command of the docs: in this process, which saves starting one; with workers, in one of its own."""
    if "dask" not in words:
        from typer.testing import CliRunner

        from partwise.cli.app import build

        with warnings.catch_warnings():
            warnings.simplefilter("default")
            result = CliRunner().invoke(build(), words[1:])
        assert result.exit_code == 0, f"{shlex.join(words)}\n{result.output}\n{result.exception!r}"
        return
    program = Path(sys.executable).with_name("partwise")
    done = subprocess.run([program, *words[1:]], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"


@pytest.fixture
def reader_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the small files that the pages speak of, where their code is run."""
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
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_of_page_runs(page: Path, reader_folder: Path) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page, "python", "console"):
        if block.language == "console":
            for words in commands(block):
                run_command(words)
        else:
            # as many empty lines before the code as the page has: a traceback then names the page's line
            code = "\n" * (block.line - 1) + block.code
            exec(compile(code, page, "exec", flags=0, dont_inherit=True), namespace)


def test_blocks_are_found() -> None:
    # a page whose fences this file could not parse would pass without being run
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    fences = len(re.findall(r"^ *```(?:python|console)\b", text, re.MULTILINE))
    assert fences == sum(len(blocks(page, "python", "console")) for page in PAGES)
    assert any(commands(block) for page in PAGES for block in blocks(page, "console"))


@pytest.mark.parametrize("skeleton", SKELETONS, ids=lambda path: path.stem)
def test_skeleton_runs(skeleton: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # by its own name, which numba's cache of the kernels remembers
    monkeypatch.syspath_prepend(skeleton.parent)
    importlib.import_module(skeleton.stem).check()


def test_layers_picture_is_the_contract() -> None:
    (picture,) = blocks(DOCS / "extend" / "architecture.md", "layers")
    drawn = [line.partition("#")[0].split() for line in picture.code.splitlines()]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [one for one in project["tool"]["importlinter"]["contracts"] if one["id"] == "packages"]
    assert contract["exhaustive"]
    assert drawn == [re.findall(r"\w+", layer) for layer in contract["layers"]]


def test_a_module_that_no_layer_names_fails_the_check(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "src" / "partwise" / "forgotten.py").touch()
    (tmp_path / "src" / "partwise" / "poisson" / "forgotten_too.py").touch()
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-logo", "--no-cache"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "partwise.forgotten" in done.stdout
    assert "partwise.poisson.forgotten_too" in done.stdout


def test_every_file_format_is_on_the_data_page() -> None:
    text = (DOCS / "reference" / "files.md").read_text(encoding="utf-8")
    for known in FORMATS:
        assert re.search(rf"^\| .*`{known.name}`", text, re.MULTILINE), known.name


def test_commands_and_options_on_the_pages_exist() -> None:
    import typer

    from partwise.cli.app import build

    commands_there = typer.main.get_command(build()).commands  # type: ignore[attr-defined]
    text = (DOCS / "reference" / "command.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## (\w+)$", text, re.MULTILINE)) == set(commands_there)
    options = {
        option
        for command in commands_there.values()
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"`(--[a-z][\w-]+)", text))
    assert {"--transpose", "--seed"} <= named <= options | {"--help"}


def test_every_plot_has_a_picture() -> None:
    from partwise import plotting

    text = (DOCS / "how-to" / "figures.md").read_text(encoding="utf-8")
    code = "".join(block.code for block in blocks(DOCS / "how-to" / "figures.md", "python"))
    functions = [name for name in plotting.__all__ if name.startswith("plot_")]
    assert [name for name in functions if f"plotting.{name}(" not in code] == []
    assert re.findall(r'save_figure\(.*"(\w+\.png)"\)', code) == re.findall(r"\(figures/(\w+\.png)\)", text)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site, warnings being errors."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    # no --quiet: it would keep warnings from being counted
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr + done.stdout, done.stderr
    return folder


def test_site_builds_without_warnings(site: Path) -> None:
    assert (site / "index.html").is_file()


def test_site_shows_the_skeletons(site: Path) -> None:
    pages = (site / "extend").glob("adding-*.html")
    text = re.sub(r"<[^>]+>", "", "".join(page.read_text(encoding="utf-8") for page in pages))
    assert "--8" not in text
    for skeleton in SKELETONS:
        for line in re.findall(r"^(?:class|def) \w+", skeleton.read_text(encoding="utf-8"), re.MULTILINE):
            assert line in text, line


def test_site_loads_nothing_from_the_network(site: Path) -> None:
    loading = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//|@import|url\(["']?https?:""")
    stylesheet = re.compile(
        r"""<link\b(?=[^>]*\brel=["']?(?:stylesheet|preconnect|preload))[^>]*\bhref=["']?(?:https?:)?//"""
    )
    pages = sorted([*site.rglob("*.html"), *site.rglob("*.css")])
    assert len(pages) > 10
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not loading.search(text), page
        assert not stylesheet.search(text), page


def test_every_public_name_has_an_api_entry(site: Path) -> None:
    from partwise._registry import PUBLIC

    text = "".join(page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html"))
    for address in PUBLIC.values():
        anchor = f'id="{address.replace(":", ".")}'  # of a name, or of the names in a module
        assert anchor + '"' in text or anchor + "." in text, address


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_every_estimator_is_named(page) -> None:
    from partwise._registry import BUILT_IN

    text = (ROOT / page).read_text()
    assert [model for model in BUILT_IN if f"`{model.class_name}`" not in text] == []


def test_page_of_the_command_names_the_models() -> None:
    from partwise._registry import model_names

    text = (DOCS / "reference" / "command.md").read_text()
    assert [name for name in model_names() if f"`{name}`" not in text] == []
