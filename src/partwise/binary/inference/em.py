"""EM: maximum likelihood (Aspect Bernoulli, Bingham, Kabán & Fortelius 2009) or maximum a posteriori."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from partwise.binary.inference.cells import Cells
from partwise.binary.inference.passes import RowWeights, expected_counts, expected_pair_counts
from partwise.binary.model import BinaryModel
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.errors import InvalidInputError

Floats = NDArray[np.float64]


@dataclass
class FactorState:
    """The factors themselves: rows x components and columns x components."""

    rows: Floats
    columns: Floats


@dataclass
class ExpectationMaximisation:
    """E-step: r proportional to w h for a one, w (1 - h) for a zero. M-step: shares of the expected counts.

    With ``use_priors`` the M-step takes the modes of the posteriors, which exist if no prior parameter is below 1.
    """

    model: BinaryModel
    use_priors: bool
    engine: Engine = field(compare=False)

    def __post_init__(self) -> None:
        model = self.model
        own = (model.activation_concentration,) if model.kind == "dir-dir" else (model.alpha, model.beta)
        if self.use_priors and min(model.concentration, *own) < 1.0:
            raise InvalidInputError(
                "inference='map' needs prior parameters of at least 1, as smaller ones have no mode: set"
                " nonparametric=False, concentration >= 1 and beta_prior >= 1 (or activation_concentration >= 1), or"
                " use inference='em' or 'vb'."
            )

    def init(self, key: Key, data: Cells) -> FactorState:
        """Random factors, as those of variational Bayes."""
        generator = key.for_stage("start").generator()
        (n_rows, n_columns), n_components = data.shape, self.model.n_components
        columns = generator.dirichlet(np.ones(n_components), size=n_columns)
        if self.model.kind == "dir-dir":
            return FactorState(generator.dirichlet(np.ones(n_components), size=n_rows), columns)
        return FactorState(generator.uniform(0.01, 0.99, size=(n_rows, n_components)), columns)

    def step(self, key: Key, data: Cells, state: FactorState) -> tuple[FactorState, Mapping[str, float]]:
        """One iteration; the objective is that of the factors that came in, which EM never lowers."""
        model = self.model
        objective = self._log_prior(state)
        if model.kind == "dir-dir":
            counts = expected_pair_counts(data, state.rows, state.columns, self.engine)
            rows = self._simplex(counts.rows, state.rows, model.activation_concentration)
        else:
            weights = RowWeights(state.rows, 1.0 - state.rows)
            counts = expected_counts(data, weights, state.columns, self.engine)
            alpha, beta = (model.alpha - 1.0, model.beta - 1.0) if self.use_priors else (0.0, 0.0)
            ones, zeros = counts.rows[..., 1] + alpha, counts.rows[..., 0] + beta
            rows = _shares(ones, ones + zeros, state.rows)
        columns = self._simplex(counts.columns, state.columns, model.concentration)
        return FactorState(rows, columns), {"objective": counts.log_normaliser + objective}

    def _simplex(self, counts: Floats, old: Floats, concentration: float) -> Floats:
        counts = counts + (concentration - 1.0) if self.use_priors else counts
        return _shares(counts, counts.sum(axis=1, keepdims=True), old)

    def _log_prior(self, state: FactorState) -> float:
        if not self.use_priors:
            return 0.0
        factors = (state.columns, state.rows) if self.model.kind == "dir-beta" else (state.rows, state.columns)
        return self.model.log_prior(*factors)


def _shares(part: Floats, whole: Floats, old: Floats) -> Floats:
    """``part / whole``, and what was there before where nothing was observed."""
    whole = np.broadcast_to(whole, part.shape)
    return np.divide(part, whole, out=old.copy(), where=whole > 0)
