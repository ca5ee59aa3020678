"""Every public function and estimator has a docstring with an example, which runs as a doctest."""

from __future__ import annotations

import doctest
import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import partwise
from partwise._registry import BUILT_IN, PUBLIC


def public_things() -> dict[str, Any]:
    """Functions and classes that ``partwise`` and its public modules offer, by name."""
    found: dict[str, Any] = {}
    for name in PUBLIC:
        value = getattr(partwise, name)
        if inspect.ismodule(value):
            found |= {f"{name}.{part}": getattr(value, part) for part in getattr(value, "__all__", [])}
        else:
            found[name] = value
    return found


THINGS = public_things()
FUNCTIONS = [name for name, value in THINGS.items() if inspect.isfunction(value)]


def fault(name: str, thing: Any) -> str:
    """What is wrong with the example of something public; empty if nothing is."""
    text = inspect.getdoc(thing) or ""
    if "Examples\n--------\n" not in text:
        return "no section Examples"
    examples = doctest.DocTestParser().get_examples(text)
    if not any(re.search(rf"\b{name.rpartition('.')[2]}\b", example.source) for example in examples):
        return "no example that uses it"
    if any(doctest.SKIP in example.options for example in examples):
        return "an example that is skipped"
    return "" if any(example.want for example in examples) or name in WRITING else "no example that shows a result"


# What they do is written to a file.
WRITING = {"plotting.save_figure"}


@pytest.mark.parametrize("name", [*FUNCTIONS, *(model.class_name for model in BUILT_IN)])
def test_there_is_an_example(name: str) -> None:
    assert fault(name, THINGS[name]) == ""


def test_a_new_function_needs_an_example_that_uses_it_and_runs() -> None:
    def grown(text: str) -> str:
        def new(x: int) -> int:
            return x

        new.__doc__ = f"Do nothing.\n\n{text}"
        return fault("module.new", new)

    head = "Examples\n--------\n"
    assert grown("") == "no section Examples"
    assert grown(head + "Just call it.") == "no example that uses it"
    assert grown(head + ">>> 1\n1") == "no example that uses it"
    assert grown(head + ">>> new(1)  # doctest: +SKIP\n1") == "an example that is skipped"
    assert grown(head + ">>> _ = new(1)") == "no example that shows a result"
    assert grown(head + ">>> new(1)\n1") == ""


def test_examples_are_run() -> None:
    # by pytest itself, which collects the doctests of every module below src
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    options = project["tool"]["pytest"]["ini_options"]
    assert "src" in options["testpaths"]
    assert "--doctest-modules" in options["addopts"].split()
    assert "doctest_optionflags" not in options
    assert set(re.findall(r"--(?:ignore|deselect)\S*", options["addopts"])) == {"--ignore-glob=*conftest.py"}


def test_all_kinds_of_things_are_found() -> None:
    assert {"ebpm", "read", "load", "selection.compare", "datasets.digits", "bridges.to_pyldavis"} <= set(FUNCTIONS)
    assert len(FUNCTIONS) > 50


@pytest.mark.parametrize("name", [name for name, value in THINGS.items() if inspect.isclass(value)])
def test_classes_say_what_they_are(name: str) -> None:
    assert (inspect.getdoc(THINGS[name]) or "").strip()
