"""How the fit ended, and how well the model fits.

Also, the sentences at the top of a report: what a reader must know before trusting the parts.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import xlogy

from partwise.contract.batch_labels import BatchPart, known_batches, parts_of_batches
from partwise.core.keys import RandomState
from partwise.kernels.arrays import Floats, Integers
from partwise.metrics import part_similarity
from partwise.plotting.order import evenly_spaced
from partwise.plotting.predictive import STATISTICS, Check, predictive_checks
from partwise.reporting.encoding import rounded
from partwise.reporting.model_view import ModelView
from partwise.sampling.agreement import SAME_PART, listed

_MOST_POINTS = 400
_MOST_COLUMNS = 8
_NOT_SHOWN = ("iteration", "elapsed")
_NORM = "column_norm_"
_MOST_CELLS = 40_000_000
_CELLS_AT_ONCE = 2_000_000
_LEAST = 1e-12


def diagnostics_section(view: ModelView, X: Any, random_state: RandomState) -> dict[str, Any]:
    """Trace, R-hat and predictive checks, if the model and the data allow them.

    Parameters
    ----------
    view
        The model and its data.
    X
        The data as given, or None.
    random_state
        Seed for the data drawn in the checks.
    """
    return {
        "trace": _trace(view.model),
        "chains": _chains(view.model),
        # The checks draw data without batch factors, so a model with batches gets none.
        "checks": None if view.data is None or view.batches is not None else _checks(view, X, random_state),
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
            kept = evenly_spaced(values.size, _MOST_POINTS)
            found.append({"name": name, "x": iterations[kept].tolist(), "y": rounded(values[kept], 8)})
    return found


def _chains(model: Any) -> list[dict[str, Any]]:
    """R-hat and effective sample sizes of a sampler; empty for other fits."""
    found = model.diagnostics() if model.chains() else {}
    kinds = "name", "mean", "r_hat", "ess_bulk", "ess_tail"
    return [dict(zip(kinds, (name, *rounded(numbers)), strict=True)) for name, numbers in found.items()]


def _checks(view: ModelView, X: Any, random_state: RandomState) -> dict[str, Any] | None:
    assert view.data is not None
    values = view.data.values
    if view.data.shape[0] < 2 or not np.array_equal(values, np.floor(values)):
        return None  # only whole numbers can be drawn
    checks = predictive_checks(view.model, X, random_state=random_state)
    panels = [_panel(name, title, getattr(checks, name)) for name, title in STATISTICS.items()]
    noise = "" if checks.noise is None else f" {checks.noise}."
    about = {"n_draws": checks.n_draws, "n_rows": checks.n_rows, "plug_in": checks.plug_in, "noise": noise}
    return {**about, "panels": panels}


def _panel(name: str, title: str, check: Check) -> dict[str, Any]:
    order = np.argsort(check.observed, kind="stable")
    order = order[evenly_spaced(order.size, _MOST_POINTS)]
    arrays = {key: rounded(getattr(check, key)[order]) for key in ("observed", "low", "middle", "high")}
    coverage = check.coverage if check.observed.size else float("nan")
    return {"name": name, "title": title, **arrays, "coverage": rounded([coverage])[0], "p_value": check.p_value}


@dataclass(frozen=True, eq=False)
class Quality:
    """Share of the deviance that the parts explain.

    Attributes
    ----------
    explained
        1 - deviance / deviance of the model without parts, for all data.
    by_sample
        The same for each sample that was examined (0 if the model without parts has no deviance).
    rows
        These samples: all, or evenly spaced ones if the data are large.
    """

    explained: float
    by_sample: Floats
    rows: Integers


def deviance_explained(view: ModelView) -> Quality | None:
    """Deviance of the data under the model, compared with a model without parts.

    The model without parts is, for counts, the product of row and column sums; for bits, the frequency of each feature.

    Parameters
    ----------
    view
        The model and its data.

    Returns
    -------
    Quality or None
        None without data.
    """
    data = view.data
    if data is None or view.activations is None:
        return None
    n_samples, n_features = data.shape
    rows = evenly_spaced(n_samples, max(1, _MOST_CELLS // n_features))
    matrix, missing = data.to_scipy(), data.missing_matrix()
    frequencies = data.column_sums / np.maximum(n_samples - np.asarray(missing.sum(axis=0)).ravel(), 1)
    ours, without = np.zeros(rows.size), np.zeros(rows.size)
    at_once = max(1, _CELLS_AT_ONCE // n_features)
    for start in range(0, rows.size, at_once):
        part = rows[start : start + at_once]
        observed = matrix[part].toarray().astype(np.float64)
        seen = ~missing[part].toarray() if data.n_missing else np.ones(observed.shape, dtype=bool)
        plain = np.where(seen, frequencies, 0.0)
        if not view.is_binary:
            plain *= (observed.sum(axis=1) / np.maximum(plain.sum(axis=1), _LEAST))[:, None]
        deviance = _bernoulli if view.is_binary else _poisson
        ours[start : start + at_once] = np.where(seen, deviance(observed, view.expected(part)), 0.0).sum(axis=1)
        without[start : start + at_once] = np.where(seen, deviance(observed, plain), 0.0).sum(axis=1)
    by_sample = np.divide(without - ours, without, out=np.zeros_like(ours), where=without > _LEAST)
    total = float(without.sum())
    return Quality((total - float(ours.sum())) / total if total > 0 else 0.0, by_sample, rows)


def _poisson(observed: Floats, expected: Floats) -> Floats:
    """2 (x log(x / rate) - x + rate), for each cell."""
    rate = np.maximum(expected, _LEAST)
    return np.asarray(2.0 * (xlogy(observed, observed / rate) - observed + rate))


def _bernoulli(observed: Floats, expected: Floats) -> Floats:
    """-2 log-likelihood, for each cell."""
    probability = np.clip(expected, _LEAST, 1.0 - _LEAST)
    return np.asarray(-2.0 * np.log(np.where(observed > 0, probability, 1.0 - probability)))


R_HAT = 1.05
"""Above this R-hat, chains disagree so much that the parts are not reliable."""

_ALIKE = 0.9
_MOST_PAIRS = 5


def alerts(view: ModelView, X: Any) -> list[str]:
    """Sentences about a fit that ended badly; empty if it ended well.

    Parameters
    ----------
    view
        The model and its data.
    X
        The data as given, or None.
    """
    model, found = view.model, []
    chains = model.diagnostics() if model.chains() else {}
    apart = {name: one.r_hat for name, one in chains.items() if np.isfinite(one.r_hat) and one.r_hat > R_HAT}
    tentative = model.tentative_parts()
    if apart:
        worst = max(apart, key=apart.__getitem__)
        told = f"R-hat {apart[worst]:.2f}, needed: at most {R_HAT}"
        found.append(f"The chains disagree ({told}): {_advice(view, tentative)}")
    elif tentative:
        found.append(f"Not every chain found the same parts: {_advice(view, tentative)}")
    if model.status_.code in ("max_iter", "interrupted") and not apart:
        advice = "" if tentative else ": treat the parts as tentative"
        found.append(f"The fit did not converge{advice}. {model.status_.message}")
    pairs = _twins(view)
    if pairs:
        told = "; ".join(f"“{view.names[k]}” and “{view.names[other]}”" for k, other in pairs[:_MOST_PAIRS])
        more = f", and {len(pairs) - _MOST_PAIRS} more pairs" if len(pairs) > _MOST_PAIRS else ""
        found.append(f"These parts are nearly the same: {told}{more}. Fit fewer or merge them (`partwise parts`).")
    followed = _batch_parts(view, X)
    if followed:
        told = "; ".join(map(str, followed[:_MOST_PAIRS]))
        more = f", and {len(followed) - _MOST_PAIRS} more parts" if len(followed) > _MOST_PAIRS else ""
        remedy = "batch= (in the command --batch)"
        takes = remedy if model.declares.batches else f"{remedy} and a model that takes batches"
        found.append(f"{told}{more}: fit with {takes} if that is not what you want.")
    return found


def _batch_parts(view: ModelView, X: Any) -> list[BatchPart]:
    """Parts that follow a batch of the samples, if the model has no batch factors."""
    labels = None if view.shares is None or X is None else known_batches(X, len(view.shares))
    if labels is None or view.shares is None or view.batches is not None or view.is_signed:
        return []
    return parts_of_batches(view.shares, view.names, labels)


def _advice(view: ModelView, tentative: list[int]) -> str:
    """What to do about chains that disagree, with the parts that not all chains found."""
    longer = "To settle it, run longer with max_iter='auto' (in the command --max-iter auto), or fit fewer parts."
    active = view.model.active_components_.size
    if not tentative:
        return f"treat the parts as tentative. {longer}"
    if len(tentative) == active > 1:
        return f"treat all {active} parts as tentative. {longer}"
    named = listed([f"“{view.names[k]}”" for k in view.order if k in tentative])
    missed = f"another chain did not find {'it' if len(tentative) == 1 else 'them'} (cosine below {SAME_PART:g})"
    return f"treat {len(tentative)} of {active} parts as tentative, because {missed}: {named}. {longer}"


def _twins(view: ModelView) -> list[tuple[int, int]]:
    active = [k for k in view.order if k in set(view.model.active_components_.tolist())]
    if view.is_signed or len(active) < 2:
        return []
    alike = np.triu(part_similarity(view.model)[np.ix_(active, active)] > _ALIKE, 1)
    return [(active[k], active[other]) for k, other in zip(*np.nonzero(alike), strict=True)]
