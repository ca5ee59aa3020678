"""The overview of a report: data, model, fit and how well it explains, as names and values."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from partwise.contract.model_file import NOT_STORED
from partwise.reporting.model_view import ModelView
from partwise.reporting.numbers import in_words
from partwise.reporting.quality import Quality


class Fact(NamedTuple):
    """A name and a value, with a sentence that explains it where that is needed."""

    name: str
    value: str
    note: str = ""


def headline(view: ModelView, quality: Quality | None) -> list[Fact]:
    """The few numbers that come first."""
    model = view.model
    facts = [Fact("model", type(model).__name__)]
    if view.data is not None:
        facts.append(Fact("samples", in_words(view.data.shape[0])))
    facts.append(Fact("features", in_words(model.n_features_in_)))
    facts.append(Fact("active parts", f"{model.n_active_components_} of {model.n_components_}"))
    if quality is not None:
        facts.append(
            Fact(
                "deviance explained",
                f"{100 * quality.explained:.1f} %",
                "Compared with " + ("frequencies of features" if view.is_binary else "row and column sums") + " alone"
                + _looked_at(view, quality)
                + ". It grows with every part, so it is no score to choose by: use held-out scores for that.",
            )
        )  # fmt: skip
    return facts


def details(view: ModelView) -> list[Fact]:
    """Everything else about data, fit and parameters."""
    model = view.model
    facts = []
    data = view.data
    if data is not None:
        n_samples, n_features = data.shape
        seen = n_samples * n_features - data.n_missing
        facts += [
            Fact("ones" if view.is_binary else "total", in_words(data.total)),
            Fact("nonzero cells", f"{in_words(data.nnz)} ({100 * data.nnz / max(seen, 1):.3g} % of those observed)"),
            Fact("missing cells", in_words(data.n_missing)),
            Fact("empty samples", in_words(int(np.sum(data.row_sums == 0)))),
        ]
    facts += [Fact("how the fit ended", model.status_.message), Fact("iterations", in_words(model.n_iter_))]
    if not math.isnan(model.objective):
        facts.append(Fact("objective", f"{model.objective:.8g}"))
    facts += [Fact(name, f"{value:.2g}") for name, value in model.facts().items()]
    parameters = {name: value for name, value in model.get_params(deep=False).items() if name not in NOT_STORED}
    facts.append(Fact("parameters", ", ".join(f"{name}={_short(value)}" for name, value in parameters.items())))
    return facts


def _looked_at(view: ModelView, quality: Quality) -> str:
    assert view.data is not None
    n_samples = view.data.shape[0]
    return "" if quality.rows.size == n_samples else f", in {in_words(quality.rows.size)} evenly spaced samples"


def _short(value: Any) -> str:
    return repr(value) if value is None or isinstance(value, bool | int | float | str) else "(given)"
