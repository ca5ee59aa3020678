"""Look up models by their command names, build estimators from options, and read parts from a file."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from partwise._registry import find_estimator, model_names
from partwise.cli.output import refuse_if
from partwise.cli.reading import Opened

if TYPE_CHECKING:
    from partwise.io import Table

OPTIONS = ("n_components", "inference", "init", "max_iter", "tol", "random_state", "n_jobs")
"""Estimator parameters that have their own option of `partwise fit`; `--set` sets the others."""
RENAMED = {"n_components": "components", "random_state": "seed", "n_jobs": "threads"}
"""Parameters in Python whose options have another name."""


def fixed_settings(name: str) -> dict[str, Any]:
    """Parameters that a model name implies: those with which it takes part in comparisons.

    Examples
    --------
    >>> fixed_settings("dir-beta"), fixed_settings("poisson")
    ({'model': 'dir-beta'}, {})
    """
    own = [one for one in find_model(name).declares.candidates if one.name == name]
    return dict(own[0].settings) if own else {}


def find_model(name: str) -> Any:
    """The estimator class for a command name or a class name."""
    known = model_names()
    unknown = name not in known and name not in known.values()
    refuse_if(unknown, "--model", f"{name!r} is not one of {', '.join(known)}.")
    return find_estimator(name)


def build_estimator(cls: Any, options: Mapping[str, Any], settings: Iterable[str], preset: str | None = None) -> Any:
    """An estimator with the options that were given (not None) and further settings ``NAME=VALUE``, all checked.

    Parameters
    ----------
    cls
        Its class.
    options
        Parameters and values; None leaves the default of the class.
    settings
        Any other parameters as text. A value is read as JSON or comma-separated numbers, otherwise as text.
        ``fixed_parts`` is a file, as of `read_parts`.
    preset
        Name of a preset of the class; options and settings override it.
    """
    parameters = {name: value for name, value in options.items() if value is not None}
    known = set(inspect.signature(cls).parameters)
    for name in parameters:
        refuse_if(name not in known, option_name(name), f"{cls.__name__} has no parameter {name}.")
    # Callbacks are functions, and no text can stand for one.
    parameters |= parsed_settings(settings, known - set(options) - {"callbacks"}, cls.__name__)
    if isinstance(file := parameters.get("fixed_parts"), str):
        parameters["fixed_parts"] = read_parts(Path(file)).transpose()
    try:
        estimator = cls(**parameters) if preset is None else cls.preset(preset, **parameters)
        estimator.check_parameters()
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return estimator


def option_name(parameter: str) -> str:
    """The option that stands for a parameter of an estimator."""
    return "--" + RENAMED.get(parameter, parameter).replace("_", "-")


def parsed_settings(settings: Iterable[str], allowed: set[str], owner: str) -> dict[str, Any]:
    """Parameters given as ``NAME=VALUE``. A value is read as JSON or comma-separated numbers, otherwise as text.

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
        refuse_if(not equals, "--set", f"{setting!r} is not of the form NAME=VALUE.")
        why = f"{owner} has no parameter {name!r} that is set this way; it has {', '.join(sorted(allowed))}."
        refuse_if(name not in allowed, "--set", why)
        found[name] = parsed(text)
    return found


def parsed(text: str) -> Any:
    """The value that a text stands for: JSON, numbers separated by commas, else the text itself.

    Examples
    --------
    >>> parsed("0.5"), parsed("0.1,0.1"), parsed("estimate")
    (0.5, [0.1, 0.1], 'estimate')
    """
    for form in (text, f"[{text}]") if "," in text else (text,):
        try:
            return json.loads(form)
        except json.JSONDecodeError:
            continue
    return text


def read_parts(path: Path) -> Table:
    """Parts as a table of features x parts, from a model file or from a table such as ``--parts`` writes.

    Parameters
    ----------
    path
        A model file of partwise, or any file that `partwise.read` reads: one row per feature, one column per part.
    """
    import numpy as np

    from partwise.cli.files import is_safetensors
    from partwise.contract.model_file import load
    from partwise.core.coerce import as_table
    from partwise.io import read
    from partwise.io.table import Table, as_labels
    from partwise.io.writing_tables import original

    if is_safetensors(path):
        model = load(path)
        table = Table(model.components_, model.known_parts, model.known_features).transpose()
    else:
        table = read(path)
    parts = np.asarray(as_table(table).matrix.toarray(), dtype=np.float64)
    labels = table.row_labels, table.column_labels
    rows, columns = (None if names is None else as_labels(map(original, names)) for names in labels)
    return Table(parts, rows, columns, source=str(path))


def refitted(estimator: Any, parts: Table, table: Opened, **more: Any) -> Any:
    """An estimator with given parts, and the data checked against them. Features are matched by name if both have any.

    Parameters
    ----------
    estimator
        Has the parameters of the result.
    parts
        Features x parts, as of `read_parts`.
    table
        The data.
    more
        Further arguments of `from_components`.
    """
    from partwise.errors import InvalidInputError

    n_features = table.shape[1]
    nameless = parts.row_labels is None or table.column_labels is None
    if nameless and len(parts) != n_features:
        raise InvalidInputError(
            f"{parts.source} has parts of {len(parts)} features, but the data have {n_features}; give parts "
            "of the same features (one row per feature), or --transpose the data."
        )
    names = table.column_labels if parts.row_labels is None else parts.row_labels
    parameters = {name: value for name, value in estimator.get_params(deep=False).items() if name != "n_components"}
    model = type(estimator).from_components(
        parts.matrix.T, feature_names=names, component_names=parts.column_labels, **more, **parameters
    )
    if not nameless:
        model.checked_data(table, caller="fit")
    return model
