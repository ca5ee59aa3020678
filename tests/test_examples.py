"""Every public function and estimator has a docstring with an example, which runs as a doctest."""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import pytest

import partwise
from partwise._registry import ESTIMATORS, PUBLIC


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


@pytest.mark.parametrize("name", [*FUNCTIONS, *ESTIMATORS])
def test_there_is_an_example(name: str) -> None:
    text = inspect.getdoc(THINGS[name]) or ""
    assert "Examples\n--------\n" in text, f"{name} has no section Examples"
    assert doctest.DocTestParser().get_examples(text), f"the examples of {name} have no >>>"


def test_all_kinds_of_things_are_found() -> None:
    assert {"ebpm", "read", "load", "selection.compare", "datasets.digits", "bridges.to_pyldavis"} <= set(FUNCTIONS)
    assert len(FUNCTIONS) > 50


@pytest.mark.parametrize("name", [name for name, value in THINGS.items() if inspect.isclass(value)])
def test_classes_say_what_they_are(name: str) -> None:
    assert (inspect.getdoc(THINGS[name]) or "").strip()
