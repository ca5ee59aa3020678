"""The documentation is true: its code runs, its site builds without warnings or network, its picture is the code's."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

from partwise.io.reading import FORMATS
from reader import blocks, commands, write_reader_files

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
SKELETONS = sorted((DOCS / "skeletons").glob("*.py"))


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
    write_reader_files(tmp_path)
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
    pytest.importorskip("importlinter", reason="it asks for newer packages than `make test-oldest` has")
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


def test_drawings_of_models_are_those_of_the_script(tmp_path: Path) -> None:
    subprocess.run([sys.executable, DOCS / "images" / "draw_stories.py", tmp_path], check=True)
    kept = {path.name: path.read_bytes() for path in (DOCS / "explanation" / "stories").glob("*.svg")}
    assert kept == {path.name: path.read_bytes() for path in tmp_path.glob("*.svg")}
    for name in kept:
        assert f"](stories/{name})" in (DOCS / "explanation" / f"{Path(name).stem}.md").read_text(encoding="utf-8")


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
