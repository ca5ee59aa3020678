"""Models and data in words and in JSON, with what a fit would object to.

It also writes and describes what `fit --presence` found: which given parts are present in which samples.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partwise.cli.files import write_activations, write_intervals
from partwise.cli.output import aligned
from partwise.cli.reading import Opened, table_size

if TYPE_CHECKING:
    from partwise.io import Table
    from partwise.restarts import Consensus


# A part counts as present from this probability on. Chains that differ by more get a line of their own.
_PRESENT = 0.5
_UNLIKE = 0.5
# The test finds extra noise in 5% of samples that have none, so report it only if this share of samples has it.
_BY_CHANCE = 0.1
_MOST_PAIRS = 10


def write_presence(
    fitted: Any, table: Opened, activations: Path | None, intervals: Path | None, names: list[str]
) -> list[str]:
    """Write what was found about the presence of parts, and say it in lines."""
    import numpy as np

    found = fitted.presence(table)
    if activations is not None:
        write_activations(activations, found.mean, table, names)
    if intervals is not None:
        write_intervals(intervals, found, table)
    present, near = found.probability > _PRESENT, np.median(found.cosine)
    order = np.argsort(-present.sum(axis=0), kind="stable")
    numbers = {names[k]: present[:, k].sum() for k in order if present[:, k].any()}
    told = [f"{name}  present in {number} of {len(present)} samples" for name, number in numbers.items()]
    summary = f"{present.sum(axis=1).mean():.1f} parts per sample, median cosine of data and reconstruction {near:.3f}"
    notes = [f"cannot be told apart in {n} samples: {a}, {b}" for (a, b), n in found.confused.items()][:_MOST_PAIRS]
    noisy, unsure = int(np.isfinite(found.noise_size).sum()), int(np.sum(found.disagreement > _UNLIKE))
    if noisy > _BY_CHANCE * len(present):
        notes.append(f"counts of {noisy} samples vary more than Poisson noise explains: their intervals are wider")
    if unsure:
        notes.append(f"the chains of {unsure} samples disagree: treat their probabilities as rough")
    return [summary, *told, *notes]


_FEATURES_SHOWN = 8
_PARTS_SHOWN = 30


def model_facts(model: Any) -> dict[str, Any]:
    """Facts about a fitted model, apart from its parts."""
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
        "tentative_parts": model.tentative_parts(),
    }


def _short(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return "given arrays" if isinstance(value, tuple) and any(getattr(one, "ndim", 0) for one in value) else str(value)


def part_lines(model: Any, *, n: int = _FEATURES_SHOWN) -> list[str]:
    """One line per non-empty part: its most distinctive features."""
    ranked = model.top_features(n)
    names = model.part_labels()
    # Parts that were switched off also have a largest feature, but it means nothing.
    active = [int(k) for k in model.active_components_] or list(range(len(ranked)))
    tentative = set(model.tentative_parts())
    # If all parts are tentative, the status says so and marks would not help.
    marked = {k: f"{names[k]} (tentative)" for k in tentative} if len(tentative) < len(active) else {}
    features = [", ".join(feature for feature, _ in part) or "(empty)" for part in ranked]
    lines = aligned([(marked.get(k, names[k]), features[k]) for k in active[:_PARTS_SHOWN]])
    if len(active) > _PARTS_SHOWN:
        lines.append(f"… and {len(active) - _PARTS_SHOWN} more")
    if len(active) < len(ranked):
        lines.append(f"… and {len(ranked) - len(active)} nearly empty ones")
    return lines


def fit_line(facts: dict[str, Any]) -> str:
    """Numbers of a fit in one line."""
    numbers = [f"{facts['n_active_components']} of {facts['n_components']} parts active"]
    if facts["objective"] is not None:
        numbers.append(f"objective {facts['objective']:.8g}")
    numbers += [f"{name} {value:.2g}" for name, value in facts["facts"].items()]
    return ", ".join(numbers)


def data_facts(table: Table) -> dict[str, Any]:
    """Sizes and values of a table, and its problems as sentences.

    Parameters
    ----------
    table
        As it was read.
    """
    import numpy as np

    from partwise.core.coerce import as_table

    size = table_size(table)
    cells = size["n_samples"] * size["n_features"]
    observed_cells = cells - size["n_missing"]
    facts: dict[str, Any] = {
        **size,
        "density": size["n_nonzeros"] / observed_cells if observed_cells else None,
        "has_sample_names": table.row_labels is not None,
        "has_feature_names": table.column_labels is not None,
        "metadata": list(table.metadata),
    }
    matrix = as_table(table).matrix if cells else None
    observed = np.array([]) if matrix is None else matrix.data[~np.isnan(matrix.data)]
    seen = observed != 0
    facts |= {
        "whole_numbers": bool(np.all(observed == np.floor(observed))),
        "zeros_and_ones": bool(np.all((observed == 0) | (observed == 1))),
        "largest": float(observed.max(initial=0)),
        "smallest_nonzero": float(observed[seen].min()) if seen.any() else None,
        "total": float(observed.sum(dtype=np.float64)),
        "faults": _faults(table),
    }
    if matrix is not None:
        filled = matrix.copy()
        filled.data = (np.nan_to_num(matrix.data) != 0).astype(np.int64)
        facts["n_empty_samples"] = int(np.sum(filled.sum(axis=1) == 0))
        facts["n_empty_features"] = int(np.sum(filled.sum(axis=0) == 0))
    return facts


def _faults(table: Table) -> list[str]:
    """Problems that turn up when the data of a count model are built."""
    import warnings

    from partwise.core.data import CountMatrix

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            CountMatrix.build(table, integers=False, caller="a fit", allow_all_zero=False)
        except ValueError as error:
            return [" ".join(str(error).split())]
    return [str(warning.message) for warning in caught]


def data_lines(name: str, facts: dict[str, Any]) -> list[str]:
    """The same facts as lines for people."""
    density = "" if facts["density"] is None else f" ({100 * facts['density']:.3g}% of the observed cells)"
    whole = "whole numbers" if facts["whole_numbers"] else "real numbers"
    kind = "zeros and ones" if facts["zeros_and_ones"] else whole
    lines = [
        f"{name}: {facts['n_samples']} samples x {facts['n_features']} features",
        f"nonzeros: {facts['n_nonzeros']}{density}; missing: {facts['n_missing']}",
        f"values: {kind}, largest {facts['largest']:g}, total {facts['total']:.10g}",
    ]
    if "n_empty_samples" in facts:
        lines.append(f"empty: {facts['n_empty_samples']} samples, {facts['n_empty_features']} features")
    names = [kind for kind in ("sample", "feature") if facts[f"has_{kind}_names"]]
    lines.append(f"names: {' and '.join(f'{kind}s' for kind in names) or 'none'}")
    if facts["metadata"]:
        lines.append(f"known about each sample: {', '.join(facts['metadata'])}")
    return [*lines, *(f"fault: {fault}" for fault in facts["faults"])]


def consensus_facts(found: Consensus) -> dict[str, Any]:
    """Numbers about a consensus, for JSON."""
    return {
        "n_restarts": found.n_restarts,
        "stability": found.stability,
        "silhouette": found.clusters.silhouette,
        "members": found.members.tolist(),
        "n_outliers": found.n_outliers,
    }
