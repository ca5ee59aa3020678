"""Command lines to go on with after a comparison, ready to be pasted."""

from __future__ import annotations

import inspect
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partwise.cli.models import OPTIONS, fixed_settings, option_name

if TYPE_CHECKING:
    from partwise.cli.reading import ReadArguments
    from partwise.selection import Comparison


def fit_command(found: Comparison, data: Path, reading: ReadArguments) -> str:
    """The `partwise fit` that gives the same model as `partwise compare --save`.

    Parameters
    ----------
    found
        The comparison, whose choice is fitted.
    data
        The file that it read.
    reading
        How it was read.
    """
    model, rank = found.choice
    words = ["fit", str(data), *reading.words(), "-o", str(_model_file(data)), "--model", model, "-k", str(rank)]
    words += ["--seed", str(found.fit_seed)]
    estimator = found.estimator()
    defaults = {name: parameter.default for name, parameter in inspect.signature(type(estimator)).parameters.items()}
    usual = {**defaults, **fixed_settings(model)}
    for name, value in estimator.get_params(deep=False).items():
        if name not in ("n_components", "random_state") and value != usual[name]:
            text = value if isinstance(value, str) else json.dumps(value)
            words += [option_name(name), text] if name in OPTIONS else ["--set", f"{name}={text}"]
    return _line(words)


def further_command(found: Comparison, data: Path, reading: ReadArguments) -> str:
    """The `partwise compare` that tries the numbers of parts beyond those that were tried; empty if there are none.

    Parameters
    ----------
    found
        The comparison.
    data
        The file that it read.
    reading
        How it was read.
    """
    if not found.untried:
        return ""
    ranks = ",".join(str(rank) for rank in found.untried)
    words = ["compare", str(data), *reading.words(), "--models", found.choice.model, "--ranks", ranks]
    return _line([*words, "--seed", str(found.seed)])


def report_command(model: Path, data: Path, reading: ReadArguments) -> str:
    """The `partwise report` that shows a model and the data it was fitted to.

    Parameters
    ----------
    model
        The model file.
    data
        The data file.
    reading
        How it was read.
    """
    return _line(["report", str(model), str(data), *reading.words(), "-o", f"{model.stem}.html"])


def _model_file(data: Path) -> Path:
    """``counts.csv.gz`` gives ``counts.partwise``, in the current folder."""
    return Path(data.name.lstrip(".").partition(".")[0] or "model").with_suffix(".partwise")


def _line(words: list[Any]) -> str:
    return shlex.join(["partwise", *words])
