"""Models in words and in JSON."""

from __future__ import annotations

import math
from typing import Any

_FEATURES_SHOWN = 8
_PARTS_SHOWN = 30


def model_facts(model: Any) -> dict[str, Any]:
    """What there is to know about a fitted model, apart from its parts."""
    from partwise.contract.model_file import NOT_STORED

    parameters = {name: value for name, value in model.get_params(deep=False).items() if name not in NOT_STORED}
    return {
        "model": type(model).__name__,
        "parameters": {name: _short(value) for name, value in parameters.items()},
        "n_components": model.n_components_,
        "n_active_components": model.n_active_components_,
        "active_components": model.active_components_.tolist(),
        "n_features": model.n_features_in_,
        "has_feature_names": model.known_features is not None,
        "n_iter": model.n_iter_,
        "objective": None if math.isnan(model.objective) else model.objective,
        "facts": dict(model.facts()),
        "status": {"code": model.status_.code, "message": model.status_.message},
    }


def _short(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return "given arrays" if isinstance(value, tuple) else str(value)


def part_lines(model: Any, *, n: int = _FEATURES_SHOWN) -> list[str]:
    """A line a part that holds something: its largest features."""
    from partwise.plotting import top_features

    ranked = top_features(model, n=n)
    names = model.part_labels()
    # Of a model that switches parts off, the others have largest features too, which mean nothing.
    active = [int(k) for k in model.active_components_] or list(range(len(ranked)))
    width = max(len(names[k]) for k in active)
    lines = [
        f"{names[k]:<{width}}  {', '.join(feature for feature, _ in ranked[k]) or '(empty)'}"
        for k in active[:_PARTS_SHOWN]
    ]
    if len(active) > _PARTS_SHOWN:
        lines.append(f"… and {len(active) - _PARTS_SHOWN} more")
    if len(active) < len(ranked):
        lines.append(f"… and {len(ranked) - len(active)} that hold next to nothing")
    return lines


def fit_line(facts: dict[str, Any]) -> str:
    """Numbers of a fit in one line."""
    numbers = [f"{facts['n_active_components']} of {facts['n_components']} components active"]
    if facts["objective"] is not None:
        numbers.append(f"objective {facts['objective']:.8g}")
    numbers += [f"{name} {value:.2g}" for name, value in facts["facts"].items()]
    return ", ".join(numbers)
