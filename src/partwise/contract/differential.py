"""Which features are more or less frequent in a part than in others: log-fold changes and local false sign rates."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr

from partwise.core.blas import one_blas_thread
from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats, Pair, Places
from partwise.passes.rate_kernels import feature_rates
from partwise.passes.side import Side, Totals, own_exposure

Versus = Literal["least-extreme", "all"]

PSEUDOCOUNT = 0.1
_LOG_2 = np.log(2.0)
_NORMAL_95 = 1.959964


@dataclass(frozen=True, eq=False)
class Differential:
    """Log2-fold changes of all features in all parts (parts x features).

    Standard errors and intervals take the activations as known. Estimated activations make parts look more different
    than they are, by about a tenth of a change, so rely on the signs more than on the sizes.

    Attributes
    ----------
    change, std_error
        Before shrinkage: log2 ratio of a feature's rates, and its standard error. NaN for features without counts.
    mean, lower, upper
        After adaptive shrinkage (most changes of a part are small): posterior mean and 95% credible interval
        (normal).
    lfsr
        Local false sign rate: the posterior probability that the sign of ``mean`` is wrong, or that there is no change.
    against
        Position of the part compared with; -1 means all others together.
    parts, features
        Their names.
    """

    change: Floats
    std_error: Floats
    mean: Floats
    lower: Floats
    upper: Floats
    lfsr: Floats
    against: Places
    parts: list[str]
    features: list[str]

    def top(self, part: int, n: int = 10, *, lfsr: float = 0.05) -> list[str]:
        """Names of the features with the largest excess in a part, among those with a small enough lfsr.

        Parameters
        ----------
        part
            Position of the part.
        n
            Largest number of features.
        lfsr
            Largest local false sign rate.
        """
        order = np.argsort(-np.nan_to_num(self.mean[part], nan=-np.inf), kind="stable")
        good = [f for f in order if self.mean[part, f] > 0 and self.lfsr[part, f] <= lfsr]
        return [self.features[f] for f in good[:n]]

    def columns(self, *, lfsr: float = 1.0) -> dict[str, Any]:
        """A long table as a mapping of columns: one line per part and feature, by part and then by decreasing mean.

        Parameters
        ----------
        lfsr
            Largest local false sign rate of what is listed.
        """
        with np.errstate(invalid="ignore"):
            part, feature = np.nonzero(self.lfsr <= lfsr)
        order = np.lexsort((-self.mean[part, feature], part))
        part, feature = part[order], feature[order]
        names = np.array([*self.parts, "all others"])
        kept = "change", "std_error", "mean", "lower", "upper"
        numbers = {name: getattr(self, name)[part, feature] for name in kept}
        return {
            "part": names[part],
            "feature": np.array(self.features)[feature],
            "against": names[self.against[part, feature]],
            **numbers,
            "lfsr": self.lfsr[part, feature],
        }


def differential(
    model: Any, data: SparseData, activations: Floats, engine: Engine, versus: Versus, pseudocount: float
) -> Differential:
    """Compare the rates of each feature between parts for given activations, as fastTopics does.

    Parameters
    ----------
    model
        Fitted model; its parts are the starting values of the rates.
    data
        Checked counts, with the weights of batches.
    activations
        Samples x parts.
    engine
        Where features are processed.
    versus
        ``"least-extreme"``: against the other part whose rate is nearest; ``"all"``: against all others, weighted by
        their expected counts.
    pseudocount
        Pseudo-counts of each feature in each part, at the feature's mean rate. They keep ratios to 0 finite.
    """
    if versus not in ("least-extreme", "all"):
        raise InvalidInputError(f"versus={versus!r} is unknown; give 'least-extreme' or 'all'.")
    if not 0 < pseudocount < np.inf:
        raise InvalidInputError(f"pseudocount must be positive, got {pseudocount}.")
    if model.n_components_ < 2:
        raise InvalidInputError("differential compares parts, and there is only one: fit more.")
    expected = np.ascontiguousarray(activations * np.abs(model.components_).sum(axis=1))
    rates, covariances = _rates(data, expected, model.feature_importance().T, engine, pseudocount)
    with np.errstate(divide="ignore", invalid="ignore"):
        if versus == "all":
            change, error, against = _against_all(rates, covariances, expected.sum(axis=0))
        else:
            change, error, against = _against_least_extreme(rates, covariances)
    shrunk = [shrink(change[:, k], error[:, k]) for k in range(change.shape[1])]
    mean, deviation, lfsr = (np.stack([one[at] for one in shrunk]) for at in range(3))
    return Differential(
        change=change.T / _LOG_2,
        std_error=error.T / _LOG_2,
        mean=mean / _LOG_2,
        lower=(mean - _NORMAL_95 * deviation) / _LOG_2,
        upper=(mean + _NORMAL_95 * deviation) / _LOG_2,
        lfsr=lfsr,
        against=np.ascontiguousarray(against.T),
        parts=model.part_labels(),
        features=model.feature_labels(),
    )


def _rates(data: SparseData, expected: Floats, start: Floats, engine: Engine, pseudocount: float) -> Pair:
    """Rates of each feature, features x parts, and covariances of their logarithms."""
    side = Side(data.transposed, engine)
    shared = expected, side.column_totals(expected), pseudocount
    n_components = expected.shape[1]
    # In C order, as on workers: a kernel compiled for another memory order rounds differently.
    rows = {"changes": [np.array(start, order="C")], "makes": [Made((n_components, n_components))]}
    with one_blas_thread():
        _, (rates, covariances) = side.map_rows(_rates_of_block, *shared, **rows)
    return np.asarray(rates), np.asarray(covariances)


def _rates_of_block(
    block: Block, rates: Floats, covariances: Floats, expected: Floats, totals: Totals, pseudocount: float
) -> None:
    exposures = np.ascontiguousarray(own_exposure(block, expected, totals))
    own = rates[block.rows], covariances[block.rows]
    feature_rates(block.own_cells, expected, exposures, pseudocount, 0, block.n_rows, own)


def _against_least_extreme(rates: Floats, covariances: Floats) -> tuple[Floats, Floats, Places]:
    """Change, standard error and the part compared with, features x parts."""
    logs = np.log(rates)
    n_features, n_components = rates.shape
    change, error = np.empty(rates.shape), np.empty(rates.shape)
    against = np.empty(rates.shape, dtype=np.intp)
    variances, every = np.diagonal(covariances, axis1=1, axis2=2), np.arange(n_features)
    for k in range(n_components):
        differences = logs[:, [k]] - logs
        distance = np.abs(differences)
        distance[:, k] = np.inf
        other = np.argmin(np.where(np.isnan(distance), np.inf, distance), axis=1)
        other[other == k] = (k + 1) % n_components  # a feature without counts
        against[:, k], change[:, k] = other, differences[every, other]
        error[:, k] = np.sqrt(variances[:, k] + variances[every, other] - 2.0 * covariances[every, k, other])
    return change, error, against


def _against_all(rates: Floats, covariances: Floats, totals: Floats) -> tuple[Floats, Floats, Places]:
    change, error = np.empty(rates.shape), np.empty(rates.shape)
    for k in range(rates.shape[1]):
        share = totals * rates
        share[:, k] = 0.0
        weight = np.delete(totals, k).sum()
        change[:, k] = np.log(rates[:, k]) - np.log(share.sum(axis=1) / weight)
        slope = -share / share.sum(axis=1, keepdims=True)
        slope[:, k] = 1.0
        error[:, k] = np.sqrt(np.einsum("fi,fij,fj->f", slope, covariances, slope))
    return change, error, np.full(rates.shape, -1, dtype=np.intp)


def shrink(estimate: Floats, std_error: Floats) -> tuple[Floats, Floats, Floats]:
    """Adaptive shrinkage (Stephens 2017): estimate ~ N(l, std_error²), l from a mixture of normals around 0.

    Parameters
    ----------
    estimate, std_error
        One of each per change; NaN where nothing is known.

    Returns
    -------
    mean, deviation, lfsr
        Posterior means and standard deviations, and local false sign rates (1 where nothing is known).
    """
    known = np.isfinite(estimate) & np.isfinite(std_error) & (std_error > 0)
    mean, deviation, lfsr = np.zeros(estimate.size), np.zeros(estimate.size), np.ones(estimate.size)
    if not known.any():
        return mean, deviation, lfsr
    x, s = estimate[known], std_error[known]
    widest = max(2.0 * float(np.sqrt(max(np.max(x**2 - s**2), 0.0))), 8.0 * float(s.min()))
    grid = np.concatenate(([0.0], np.geomspace(float(s.min()) / 10.0, widest, 30)))
    variance = s[:, None] ** 2 + grid**2
    logs = -0.5 * (np.log(variance) + x[:, None] ** 2 / variance)
    likelihood = np.asfortranarray(np.exp(logs - logs.max(axis=1, keepdims=True)))
    weights = np.full(grid.size, 1.0 / grid.size)
    from partwise.priors.kernels.weights import best_weights

    with one_blas_thread():
        best_weights(likelihood, np.full(x.size, 1.0 / x.size), 1e-6, weights, np.empty(3))
    posterior = likelihood * weights
    posterior /= posterior.sum(axis=1, keepdims=True)
    means = x[:, None] * grid**2 / variance
    variances = s[:, None] ** 2 * grid**2 / variance
    mean[known] = np.sum(posterior * means, axis=1)
    second = np.sum(posterior * (means**2 + variances), axis=1)
    deviation[known] = np.sqrt(np.maximum(second - mean[known] ** 2, 0.0))
    below = np.sum(posterior[:, 1:] * ndtr(-means[:, 1:] / np.sqrt(variances[:, 1:])), axis=1)
    zero = posterior[:, 0]
    lfsr[known] = np.minimum(np.minimum(below + zero, 1.0 - below), 1.0)
    return mean, deviation, lfsr
