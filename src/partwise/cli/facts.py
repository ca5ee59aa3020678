"""Data in words and in JSON: sizes, values, and what a fit would object to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partwise.io import Table


def data_facts(table: Table) -> dict[str, Any]:
    """Sizes and values of a table, and its faults as sentences.

    Parameters
    ----------
    table
        As it was read.
    """
    import numpy as np

    from partwise.cli.reading import cell_counts
    from partwise.core.coerce import as_table

    n_samples, n_features = table.shape
    nonzeros, missing = cell_counts(table)
    cells = n_samples * n_features
    facts: dict[str, Any] = {
        "n_samples": n_samples,
        "n_features": n_features,
        "n_nonzeros": nonzeros,
        "n_missing": missing,
        "density": nonzeros / (cells - missing) if cells > missing else None,
        "has_sample_names": table.row_labels is not None,
        "has_feature_names": table.column_labels is not None,
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
    """What building the data of a count model says against them."""
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
    """The same for people."""
    density = "" if facts["density"] is None else f" ({100 * facts['density']:.3g} % of the observed cells)"
    if facts["zeros_and_ones"]:
        kind = "zeros and ones"
    elif facts["whole_numbers"]:
        kind = "whole numbers"
    else:
        kind = "real numbers"
    lines = [
        f"{name}: {facts['n_samples']} samples x {facts['n_features']} features",
        f"nonzeros: {facts['n_nonzeros']}{density}; missing: {facts['n_missing']}",
        f"values: {kind}, largest {facts['largest']:g}, total {facts['total']:.10g}",
    ]
    if "n_empty_samples" in facts:
        lines.append(f"empty: {facts['n_empty_samples']} samples, {facts['n_empty_features']} features")
    names = [kind for kind in ("sample", "feature") if facts[f"has_{kind}_names"]]
    lines.append(f"names: {' and '.join(f'{kind}s' for kind in names) or 'none'}")
    return [*lines, *(f"fault: {fault}" for fault in facts["faults"])]
