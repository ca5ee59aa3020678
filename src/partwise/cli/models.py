"""Models by the names that the command has for them, and estimators built from options."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from typing import Any

import typer

from partwise._registry import find_estimator, model_names

OPTIONS = ("n_components", "inference", "init", "max_iter", "tol", "random_state", "n_jobs")
"""Parameters of estimators that `partwise fit` has options of their own for; `--set` sets the others."""


def fixed_settings(name: str) -> dict[str, Any]:
    """Parameters that the name of a model stands for: those with which it takes part in comparisons.

    Examples
    --------
    >>> fixed_settings("dir-beta"), fixed_settings("poisson")
    ({'model': 'dir-beta', 'init': 'vb'}, {})
    """
    own = [one for one in find_model(name).declares.candidates if one.name == name]
    return dict(own[0].settings) if own else {}


def find_model(name: str) -> Any:
    """The estimator class of a model's name, or of its own."""
    known = model_names()
    if name not in known and name not in known.values():
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(known)}.", param_hint="--model")
    return find_estimator(name)


def build_estimator(cls: Any, options: Mapping[str, Any], settings: Iterable[str]) -> Any:
    """An estimator with the options that were given (not None) and further settings ``NAME=VALUE``, all checked.

    Parameters
    ----------
    cls
        Its class.
    options
        Parameters and values; None leaves the default of the class.
    settings
        Any other parameters as text; a value is read as JSON, else taken as text.
    """
    parameters = {name: value for name, value in options.items() if value is not None}
    known = set(inspect.signature(cls).parameters)
    for name in parameters:
        if name not in known:
            raise typer.BadParameter(f"{cls.__name__} has no parameter {name}.", param_hint=option_name(name))
    # Callbacks are functions, which no text stands for.
    parameters |= parsed_settings(settings, known - set(options) - {"callbacks"}, cls.__name__)
    estimator = cls(**parameters)
    try:
        estimator._validate_params()
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return estimator


def option_name(parameter: str) -> str:
    """The option that stands for a parameter of an estimator."""
    named = {"n_components": "components", "random_state": "seed", "n_jobs": "threads"}
    return "--" + named.get(parameter, parameter).replace("_", "-")


def parsed_settings(settings: Iterable[str], allowed: set[str], owner: str) -> dict[str, Any]:
    """Parameters given as ``NAME=VALUE``; a value is read as JSON, else taken as text.

    Parameters
    ----------
    settings
        What ``--set`` was given.
    allowed
        Names that may be set.
    owner
        Whose parameters they are, for messages.
    """
    found: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise typer.BadParameter(f"{setting!r} is not of the form NAME=VALUE.", param_hint="--set")
        if name not in allowed:
            raise typer.BadParameter(
                f"{owner} has no parameter {name!r} that is set this way; it has {', '.join(sorted(allowed))}.",
                param_hint="--set",
            )
        try:
            found[name] = json.loads(text)
        except json.JSONDecodeError:
            found[name] = text
    return found
