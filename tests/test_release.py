"""What a release is made of: the archives, an installation in an empty environment, and the files of the forge."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import partwise
from reader import blocks, commands, write_reader_files

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheel and sdist, built as `make dist` builds them."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True
    )
    return folder


def test_archives_hold_what_they_should(archives: Path) -> None:
    (wheel,) = archives.glob("*.whl")
    (sdist,) = archives.glob("*.tar.gz")
    version = partwise.__version__
    assert (wheel.name, sdist.name) == (f"partwise-{version}-py3-none-any.whl", f"partwise-{version}.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"partwise", f"partwise-{version}.dist-info"}
    for needed in ("partwise/py.typed", "partwise/reporting/assets/page.html", "partwise/datasets/catalogue.toml"):
        assert needed in names
    assert wheel.stat().st_size < 2_000_000
    with tarfile.open(sdist) as archive:
        held = archive.getnames()
    assert not [name for name in held if "benchmarks/results" in name or ".venv" in name]
    assert f"partwise-{version}/tests/test_release.py" in held
    assert sdist.stat().st_size < 5_000_000


@pytest.mark.slow
def test_installed_in_an_empty_environment(archives: Path, tmp_path: Path) -> None:
    """Install the wheel, run README from top to bottom, uninstall: only the named cache folder remains."""
    (wheel,) = archives.glob("*.whl")
    home = tmp_path / "home"
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "MPLCONFIGDIR": str(tmp_path / "matplotlib")}
    settings: dict = {"cwd": tmp_path, "env": environment, "check": True, "capture_output": True, "text": True}
    subprocess.run([sys.executable, "-m", "venv", "empty"], **settings)
    python = str(tmp_path / "empty" / "bin" / "python")
    installed = subprocess.run([python, "-m", "pip", "install", f"{wheel}[plot]"], **{**settings, "check": False})
    if installed.returncode:
        pytest.skip(f"packages cannot be installed here: {installed.stderr.strip().splitlines()[-1]}")
    of_pip = {path.name for path in home.iterdir()}  # it asks rustc for its version, which makes a folder of its own
    package = subprocess.run([python, "-c", "import partwise; print(partwise.__file__)"], **settings).stdout.strip()
    assert package.startswith(str(tmp_path))
    work = tmp_path / "work"
    work.mkdir()
    write_reader_files(work)
    code = ""
    for block in blocks(ROOT / "README.md", "python", "console"):
        for words in commands(block):
            subprocess.run([f"{tmp_path}/empty/bin/partwise", *words[1:]], **{**settings, "cwd": work})
        code += block.code if block.language == "python" else ""
    assert code
    subprocess.run([python, "-c", code], **{**settings, "cwd": work})
    subprocess.run([python, "-m", "pip", "uninstall", "--yes", "partwise"], **settings)
    assert not Path(package).with_name("__init__.py").exists()
    left = [path for path in Path(package).parent.rglob("*") if path.is_file()] if Path(package).parent.exists() else []
    assert {path.parent.name for path in left} <= {"__pycache__"}, left
    assert {path.name for path in home.iterdir()} <= {".cache", *of_pip}


def test_readme_promises_no_package_index() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.index("make demo") < text.index("make test") < text.index("pip install")
    assert not re.search(r'pip install "?partwise', text)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_valid_and_say_that_they_did_not_run(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("# Not yet run")
    check("vendor.github-workflows", path)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_issue_forms_are_valid(path: Path) -> None:
    check("vendor.github-issue-forms", path)


def check(schema: str, path: Path) -> None:
    pytest.importorskip("check_jsonschema", reason="holds the schemas")
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_broken_workflow_would_be_seen(tmp_path: Path) -> None:
    text = WORKFLOWS[0].read_text(encoding="utf-8").replace("runs-on:", "runs-in:")
    (tmp_path / "broken.yml").write_text(text)
    with pytest.raises(AssertionError):
        check("vendor.github-workflows", tmp_path / "broken.yml")


def test_container_needs_neither_root_nor_a_disk_of_its_own() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", text, re.MULTILINE)
    assert "--read-only" in text


def test_every_promise_names_a_test_that_is_there() -> None:
    text = (ROOT / "docs" / "reference" / "promises.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/.]+?\.py)(?:::(\w+))?`", text)
    assert len(named) > 20
    for file, function in named:
        assert (ROOT / file).is_file(), file
        assert not function or f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{function}"


def test_set_up_needs_two_commands() -> None:
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test", "test-faults", "test-oldest", "test-newest", "dist"):
        assert re.search(rf"^{target}:", targets, re.MULTILINE)
