"""Help: fast, complete, with examples that run."""

from __future__ import annotations

import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import partwise.cli.commands
from partwise._version import __version__

COMMANDS = [module.name for module in pkgutil.iter_modules(partwise.cli.commands.__path__)]
HEAVY = ["numpy", "scipy", "numba", "sklearn", "pandas", "matplotlib", "anndata", "pyarrow", "polars"]


def test_commands_are_the_files(partwise) -> None:
    text = partwise("--help").stdout
    listed = re.findall(r"^  (\w+)  +\S", text.partition("Commands:")[2].partition("Examples:")[0], re.MULTILINE)
    assert listed == COMMANDS
    told = (
        "count fit parts markers transform score compare report plot predict recommend match convert reproduce datasets"
        " info demo"
    )
    assert set(COMMANDS) == set(told.split())


def test_no_arguments_show_help(partwise) -> None:
    result = partwise(code=2)
    assert "Commands:" in result.stdout + result.stderr


def test_version(partwise) -> None:
    assert partwise("--version").stdout == f"partwise {__version__}\n"


def examples(text: str) -> list[list[str]]:
    """The command lines under "Examples:" of a help text."""
    lines = text.partition("Examples:")[2].splitlines()
    return [shlex.split(line.strip().removeprefix("$ ")) for line in lines if line.strip().startswith("$ ")]


def test_first_examples_are_those_of_commands(partwise) -> None:
    found = examples(partwise("--help").stdout)
    assert found
    for words in found:
        assert words in examples(partwise(words[1], "--help").stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_of_help_run(name: str, partwise, folder: Path) -> None:
    found = examples(partwise(name, "--help").stdout)
    assert found
    if name != "fit":
        partwise("fit", "counts.npz", "-o", "topics.partwise", "-k", "4")
    if name == "predict":
        quick = ["--set", "n_draws=20", "--set", "burn_in=20"]
        partwise("fit", "votes.csv", "--model", "binary", "-o", "votes.partwise", "-k", "3", *quick)
    for words in found:
        assert words[:2] == ["partwise", name]
        partwise(*words[1:])


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_command_says_all(name: str, partwise) -> None:
    text = partwise(name, "-h").stdout
    assert "--json" in text
    assert "--debug" in text
    assert "PARTWISE_DEBUG" in text
    lines = text.partition("Options:")[2].partition("Examples:")[0]
    # every option has a text of its own, on its line or on the next
    for option, after in re.findall(r"^  (-\S.*?)(?:  +(\S.*))?$", lines, re.MULTILINE):
        assert after or re.search(rf"^  {re.escape(option)}\n {{20,}}\S", lines, re.MULTILINE), option


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    code = (
        f"import sys; sys.argv = ['partwise', *{words}]\n"
        "from partwise.cli.main import main\n"
        "try:\n    main()\nfinally:\n"
        f"    print('LOADED', *[name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split() == ["LOADED"]


def completed(line: str) -> list[str]:
    """What a shell is offered for the last word of a line."""
    program = Path(sys.executable).with_name("partwise")
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    done = subprocess.run(
        [program],
        env={"_PARTWISE_COMPLETE": "complete_bash", **words, "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("partwise tra", ["transform"]),
        ("partwise fit x.npz --model dir", ["dir-beta", "dir-dir"]),
        ("partwise fit x --format np", ["npz", "npy"]),
        ("partwise convert x y --write-format par", ["parquet"]),
        ("partwise compare x --models poisson,all", ["poisson,allocation"]),
        ("partwise plot m --kind st", ["structure"]),
        ("partwise datasets simulated-bi", ["simulated-binary"]),
        ("partwise reproduce l", ["l2r"]),
    ],
)
def test_completion_is_offered(line: str, offered: list[str]) -> None:
    assert completed(line) == offered


def test_completion_is_installed(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("partwise")
    # named, as there is no shell here that could be asked
    plain = {"HOME": str(tmp_path), "PATH": "/usr/bin", "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    for option in ("--show-completion", "--install-completion"):
        done = subprocess.run(
            [program, option, "bash"], env=plain, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
    (script,) = tmp_path.rglob("partwise.sh")
    assert "_PARTWISE_COMPLETE=complete_bash" in script.read_text()
    assert str(script) in (tmp_path / ".bashrc").read_text()


SHARED = {
    # command: seed, threads, progress; info only reads, and the seeds of papers are theirs
    "compare": "stp",
    "count": "",  # it has no random numbers
    "convert": "t",  # workers of --engine dask
    "datasets": "s",
    "demo": "stp",
    "fit": "stp",
    "info": "",
    "markers": "tp",  # nothing random
    "match": "",
    "parts": "",
    "plot": "stp",
    "predict": "tp",  # activations of given parts and what follows from them have no random numbers
    "recommend": "tp",
    "report": "stp",
    "reproduce": "",
    "score": "stp",
    "transform": "tp",
}


def test_commands_share_their_options() -> None:
    from typer.main import get_command

    from partwise.cli.app import build

    letters = {"--seed": "s", "--threads": "t", "--progress": "p"}
    told: dict[str, set[tuple[object, ...]]] = {}
    found = {}
    for name, command in get_command(build()).commands.items():  # type: ignore[attr-defined]
        found[name] = ""
        for parameter in command.params:
            option = parameter.opts[0]
            found[name] += letters.get(option, "")
            # one meaning, one text and one default wherever it stands
            if option in (*letters, "--json", "--debug", "--transpose", "--format", "--image-shape", "MODEL"):
                told.setdefault(option, set()).add((parameter.help, parameter.metavar, repr(parameter.default)))
    assert found == SHARED
    assert [option for option, texts in told.items() if len(texts) > 1] == []
    assert set(told) >= {*letters, "--json", "--debug", "--transpose", "--image-shape"}


def test_list_of_commands_is_not_cut_short(partwise) -> None:
    assert "..." not in partwise("--help").stdout.partition("Commands:")[2].partition("Examples:")[0]
