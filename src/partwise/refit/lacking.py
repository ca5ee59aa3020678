"""Test whether data hold counts that no combination of given parts explains."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import xlogy

from partwise._registry import find_estimator
from partwise.contract import CountModel
from partwise.core.data import CountMatrix
from partwise.core.keys import RandomState, key_from
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats, Places

_PRESENCE_DRAWS = 400


@dataclass(frozen=True, eq=False)
class LackingTest:
    """What given parts cannot explain.

    Attributes
    ----------
    p_values
        For each sample, the probability of a fit at least as bad if the parts explain everything.
    cohort_p_value
        The same for all samples together: features that they have too much or too little of.
    candidate
        One number per feature, with sum 1: what the samples have beyond the fit, as a candidate part.
    excess
        Share of all counts beyond the fit.
    """

    p_values: Floats
    cohort_p_value: float
    candidate: Floats
    excess: float

    def alarms(self, level: float = 0.05) -> Places:
        """Samples that raise the alarm; at most this share of samples that lack nothing do."""
        return np.flatnonzero(self.p_values <= level)


def lacking(model: CountModel, X: Any, *, n_draws: int = 99, random_state: RandomState = 0) -> LackingTest:
    """Test whether samples, or all of them together, hold counts that no combination of the parts explains.

    All parts are fitted by maximum likelihood. Data are then drawn with Poisson noise, as if the parts that `presence`
    finds explained everything, and fitted in the same way. A sample raises the alarm if its deviance is larger than
    nearly all of those. Noise beyond Poisson raises the alarm, too.

    Parameters
    ----------
    model
        A fitted model of counts, or one of `from_components`.
    X
        Counts as for `transform`.
    n_draws
        Number of data sets to draw.
    random_state
        Seed: int, Generator or None.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import PoissonNMF
    >>> from partwise.refit import lacking
    >>> model = PoissonNMF.from_components([[0.5, 0.5, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0]])
    >>> lacking(model, [[110, 190, 100, 0], [100, 200, 100, 90]]).p_values.tolist()
    [0.3, 0.01]
    """
    if n_draws < 19:
        raise InvalidInputError(f"n_draws must be at least 19, got {n_draws}: fewer cannot give p = 0.05.")
    data = model.checked_data(X, caller="lacking", integers=True)
    if data.n_missing:
        raise InvalidInputError("X has missing cells, which this test does not handle: pass whole rows.")
    solver = find_estimator("poisson").from_components(model.components_, n_jobs=model.n_jobs)
    counts = data.to_scipy().toarray().astype(np.float64)
    expected = _expected(solver, counts)
    deviances, common = _deviances(counts, expected), _common(counts, expected)
    beyond, at_all = np.ones(len(counts)), 1
    generator = key_from(random_state).for_stage("lacking").generator()
    # The fit of all parts has too many parts, so data drawn from it would be fitted too well.
    likely = _likely(model, data, counts)
    for _ in range(n_draws):
        drawn = generator.poisson(likely).astype(np.float64)
        refit = _expected(solver, drawn)
        beyond += _deviances(drawn, refit) >= deviances
        at_all += int(_common(drawn, refit) >= common)
    surplus = np.maximum((counts - expected).sum(axis=0), 0.0)
    total = float(surplus.sum())
    return LackingTest(
        p_values=beyond / (n_draws + 1),
        cohort_p_value=at_all / (n_draws + 1),
        candidate=surplus / total if total > 0 else np.full(surplus.size, 1.0 / surplus.size),
        excess=total / max(float(counts.sum()), 1.0),
    )


def _likely(model: CountModel, data: Any, counts: Floats) -> Floats:
    """Expected counts under the parts that are present."""
    likely = np.zeros_like(counts)
    filled = np.flatnonzero(counts.sum(axis=1))
    if filled.size:
        rows = CountMatrix.build(counts[filled])
        named = replace(rows, column_labels=data.column_labels)
        found = model.presence(named, n_draws=_PRESENCE_DRAWS, noise="poisson")
        # Use only parts that are more likely present than absent: small shares of many parts would be fitted too well,
        # too.
        top = found.probability >= np.minimum(0.5, found.probability.max(axis=1, keepdims=True))
        likely[filled] = np.where(top, found.mean, 0.0) @ model.components_
        likely[filled] *= counts[filled].sum(axis=1, keepdims=True) / likely[filled].sum(axis=1, keepdims=True)
    return likely


def _expected(solver: Any, counts: Floats) -> Floats:
    filled = counts.sum(axis=1) > 0
    expected = np.zeros_like(counts)
    if filled.any():
        expected[filled] = solver.inverse_transform(solver.transform(counts[filled]))
    return expected


def _deviances(counts: Floats, expected: Floats) -> Floats:
    """Poisson deviance of each row; where nothing is expected, use a small expected count."""
    rates = np.maximum(expected, 1e-9 * np.maximum(counts.sum(axis=1, keepdims=True), 1.0))
    return np.asarray(2.0 * (xlogy(counts, counts / rates) - counts + expected).sum(axis=1))


def _common(counts: Floats, expected: Floats) -> float:
    """How far the totals of features are from their expected values, in squared standard errors."""
    totals = np.maximum(expected.sum(axis=0), 1e-9 * max(float(counts.sum()), 1.0))
    return float(np.sum(np.square((counts - expected).sum(axis=0)) / totals))
