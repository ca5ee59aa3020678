"""Mean-field variational Bayes for the augmented models; for Beta-Dir it is binary ICA (Kabán & Bingham 2008)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.special import betaln, digamma, gammaln

from partwise.binary.inference.cells import Cells, ExpectedCounts, expected_counts, expected_pair_counts
from partwise.binary.model import BinaryModel
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.kernels.arrays import Floats

# Products of two weights must not underflow; smaller weights have no effect.
_SMALLEST = 1e-140


@dataclass
class BinaryVariationalState:
    """Expected counts of labels: the parameters of the factors' distributions, without the priors.

    ``row_counts``: rows x parts x bit; for Dir-Dir rows x parts. ``priors``: kinds x parts, as in
    `partwise.binary.model.Priors`.
    """

    row_counts: Floats
    column_counts: Floats
    priors: Floats


@dataclass
class BinaryVariationalBayes:
    """Update q(Z), q(w) and q(h) in turn. The evidence lower bound never falls.

    A step computes q(Z) for all cells from the factors (r proportional to exp(E log w + x E log h + (1 - x) E log(1 -
    h))), and both factors from it. Dir-Dir has a q for each pair of labels.
    """

    model: BinaryModel
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: Cells) -> BinaryVariationalState:
        """Counts that random factors would give: equal factors would stay equal forever."""
        generator = key.for_stage("start").generator()
        n_components = self.model.n_components
        (n_rows, n_columns) = data.shape
        columns = generator.dirichlet(np.ones(n_components), size=n_columns)
        if self.model.kind == "dir-dir":
            rows = generator.dirichlet(np.ones(n_components), size=n_rows)
            rows = rows * data.row_sizes[:, None]
        else:
            probability = generator.random((n_rows, n_components))
            rows = np.stack((1.0 - probability, probability), axis=2) * (data.row_sizes / n_components)[:, None, None]
        return BinaryVariationalState(rows, columns * data.column_sizes[:, None], np.array(self.model.priors))

    def step(
        self, key: Key, data: Cells, state: BinaryVariationalState
    ) -> tuple[BinaryVariationalState, Mapping[str, float]]:
        """Update everything once; the objective is the bound of the incoming state."""
        model = self.model.with_priors(state.priors)
        counts, log_scale = expected_under(model, data, state, self.engine)
        bound = counts.log_normaliser + log_scale - divergence(model, state)
        return BinaryVariationalState(counts.rows, counts.columns, state.priors), {"objective": bound}


def expected_under(
    model: BinaryModel, data: Cells, state: BinaryVariationalState, engine: Engine
) -> tuple[ExpectedCounts, float]:
    """Expected counts under the factors' distributions, and the logarithm of what their weights were scaled by."""
    columns, scales = column_weights(model, state.column_counts)
    log_scale = float(scales @ data.column_sizes)
    if model.kind == "dir-dir":
        rows, row_scales = pair_row_weights(model, state.row_counts)
        return expected_pair_counts(data, rows, columns, engine), log_scale + float(row_scales @ data.row_sizes)
    return expected_counts(data, row_weights(model, state.row_counts), columns, engine), log_scale


def column_weights(model: BinaryModel, column_counts: Floats) -> tuple[Floats, Floats]:
    """Weights exp E log w, scaled so that the largest of each column is 1, and the logarithms of the scales."""
    return _weights(log_dirichlet_means(model.priors.concentration + column_counts))


def pair_row_weights(model: BinaryModel, row_counts: Floats) -> tuple[Floats, Floats]:
    """The same for the rows of Dir-Dir."""
    return _weights(log_dirichlet_means(model.priors.activation_concentration + row_counts))


def row_weights(model: BinaryModel, row_counts: Floats) -> Floats:
    """Weights exp E log(1 - h) of zeros and exp E log h of ones: bit x rows x parts."""
    ones, zeros = model.priors.alpha + row_counts[..., 1], model.priors.beta + row_counts[..., 0]
    return np.asarray(np.maximum(np.exp(digamma(np.stack((zeros, ones))) - digamma(ones + zeros)), _SMALLEST))


def log_dirichlet_means(parameters: Floats) -> Floats:
    """E log w of Dirichlet rows."""
    return np.asarray(digamma(parameters) - digamma(parameters.sum(axis=1, keepdims=True)))


def _weights(logs: Floats) -> tuple[Floats, Floats]:
    """Exponentials of each row, scaled so that its largest is 1, and the logarithms of the scales."""
    largest = logs.max(axis=1)
    return np.maximum(np.exp(logs - largest[:, None]), _SMALLEST), largest


def divergence(model: BinaryModel, state: BinaryVariationalState) -> float:
    """KL(q || prior) of both factors."""
    priors = model.priors
    total = _dirichlet_divergence(state.column_counts, priors.concentration)
    if model.kind == "dir-dir":
        return total + _dirichlet_divergence(state.row_counts, priors.activation_concentration)
    counts = state.row_counts
    ones, zeros = priors.alpha + counts[..., 1], priors.beta + counts[..., 0]
    both = digamma(ones + zeros)
    logs = counts[..., 1] * (digamma(ones) - both) + counts[..., 0] * (digamma(zeros) - both)
    return total + float((logs - betaln(ones, zeros) + betaln(priors.alpha, priors.beta)).sum())


def _dirichlet_divergence(counts: Floats, concentration: Floats) -> float:
    parameters = concentration + counts
    prior = len(counts) * (gammaln(concentration.sum()) - gammaln(concentration).sum())
    posterior = gammaln(parameters.sum(axis=1)).sum() - gammaln(parameters).sum()
    return float(posterior - prior + (counts * log_dirichlet_means(parameters)).sum())
