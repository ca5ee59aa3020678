"""The diagnostics of a report: what the fit reached, whether chains agree, and predictive checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.core.keys import RandomState
from partwise.plotting.checks import STATISTICS
from partwise.plotting.predictive import Check, predictive_checks
from partwise.reporting.model_view import ModelView
from partwise.reporting.numbers import rounded

_MOST_POINTS = 400
_MOST_COLUMNS = 8
_NOT_SHOWN = ("iteration", "elapsed")
_NORM = "column_norm_"


def diagnostics_section(view: ModelView, X: Any, random_state: RandomState) -> dict[str, Any]:
    """Trace, R-hat and predictive checks, as far as model and data allow.

    Parameters
    ----------
    view
        The model and its data.
    X
        The data as they were given, or None.
    random_state
        Seed of the data that are drawn for the checks.
    """
    return {
        "trace": _trace(view.model),
        "chains": _chains(view.model),
        "checks": None if view.data is None else _checks(view, X, random_state),
    }


def _trace(model: Any) -> list[dict[str, Any]]:
    """Columns of the trace that have values, thinned."""
    found: list[dict[str, Any]] = []
    for name in model.trace_:
        if name in _NOT_SHOWN or name.startswith(_NORM) or len(found) == _MOST_COLUMNS:
            continue
        iterations, values = model.trace_.evaluated(name)
        finite = np.isfinite(values)
        iterations, values = iterations[finite], values[finite]
        if values.size:
            kept = _thinned(values.size)
            found.append({"name": name, "x": iterations[kept].tolist(), "y": rounded(values[kept], 8)})
    return found


def _chains(model: Any) -> list[dict[str, Any]]:
    """R-hat and effective sample sizes of a sampler, nothing of others."""
    found = model.diagnostics() if model.chains() else {}
    return [
        {"name": name, **dict(zip(("mean", "r_hat", "ess_bulk", "ess_tail"), rounded(numbers), strict=True))}
        for name, numbers in found.items()
    ]


def _checks(view: ModelView, X: Any, random_state: RandomState) -> dict[str, Any] | None:
    assert view.data is not None
    values = view.data.values
    if view.data.shape[0] < 2 or not np.array_equal(values, np.floor(values)):
        return None  # only whole numbers can be drawn
    checks = predictive_checks(view.model, X, random_state=random_state)
    panels = [_panel(name, title, getattr(checks, name)) for name, title in STATISTICS.items()]
    return {"n_draws": checks.n_draws, "n_rows": checks.n_rows, "plug_in": checks.plug_in, "panels": panels}


def _panel(name: str, title: str, check: Check) -> dict[str, Any]:
    order = np.argsort(check.observed, kind="stable")
    order = order[_thinned(order.size)]
    arrays = {key: rounded(getattr(check, key)[order]) for key in ("observed", "low", "middle", "high")}
    coverage = check.coverage if check.observed.size else float("nan")
    return {"name": name, "title": title, **arrays, "coverage": rounded([coverage])[0], "p_value": check.p_value}


def _thinned(size: int) -> Any:
    return np.unique(np.linspace(0, size - 1, min(size, _MOST_POINTS)).astype(np.int64)) if size else np.arange(0)
