"""EM: maximum likelihood (Aspect Bernoulli, Bingham, Kabán & Fortelius 2009) or maximum a posteriori."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from partwise.binary.inference.cells import Cells, expected_counts, expected_pair_counts
from partwise.binary.inference.learning import learn
from partwise.binary.inference.posterior import dirichlet_moments, row_moments, shares_or
from partwise.binary.model import BinaryModel, Priors
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.kernels.arrays import Floats

_FIRST_STRIDE, _GROWTH, _SLOW_GROWTH = 1.0, 1.1, 1.02
_NOTHING = 1e-12


@dataclass
class FactorState:
    """The factors (rows x parts and columns x parts), those of the previous iteration, and how to continue.

    ``priors`` are kinds x parts, as in `partwise.binary.model.Priors`; they do not change.

    ``stride`` is how far the next E-step goes beyond the factors along their last change, ``longest`` how far it may,
    and ``reached`` the objective of the last accepted point.
    """

    rows: Floats
    columns: Floats
    priors: Floats
    last_rows: Floats
    last_columns: Floats
    stride: float = 0.0
    longest: float = 1.0
    reached: float = -np.inf


@dataclass
class ExpectationMaximisation:
    """E-step: r proportional to w h for a one, w (1 - h) for a zero. M-step: shares of the expected counts.

    With ``use_priors`` the M-step adds the parameters of the priors to the counts. This gives the mode of log odds (for
    a beta factor) and of logarithms up to a constant (for a Dirichlet factor). Every prior has one, and it is not at 0.
    Estimated priors come from the sampler of `partwise.binary.inference.priors`, and stay fixed.

    EM is slow, so each E-step goes somewhat beyond the factors, along their last change in logarithms and log odds,
    which keeps them probabilities. If the objective falls, the point is rejected, and the next E-step is taken at the
    factors themselves. So accepted points never lower the objective, as in EM.
    """

    model: BinaryModel
    use_priors: bool
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: Cells) -> FactorState:
        """Random factors, as in variational Bayes; from drawn labels, if priors are estimated."""
        if self.use_priors and self.model.estimated:
            found = learn(key, data, self.model)
            model = self.model.with_priors(found.priors)
            rows = row_moments(model, found.row_counts).mean
            columns = dirichlet_moments(found.column_counts, model.priors.concentration).mean
            return FactorState(rows, columns, found.priors, rows.copy(), columns.copy())
        generator = key.for_stage("start").generator()
        (n_rows, n_columns), n_components = data.shape, self.model.n_components
        columns = generator.dirichlet(np.ones(n_components), size=n_columns)
        if self.model.kind == "dir-dir":
            rows = generator.dirichlet(np.ones(n_components), size=n_rows)
        else:
            rows = generator.uniform(0.01, 0.99, size=(n_rows, n_components))
        return FactorState(rows, columns, np.array(self.model.priors), rows.copy(), columns.copy())

    def step(self, key: Key, data: Cells, state: FactorState) -> tuple[FactorState, Mapping[str, float]]:
        """One iteration. The objective is that of the point of its E-step, left out if that was rejected."""
        model = self.model.with_priors(state.priors)
        rows, columns = state.rows, state.columns
        if state.stride > 0.0:
            columns = _beyond_on_simplex(columns, state.last_columns, state.stride)
            beyond = _beyond_on_simplex if model.kind == "dir-dir" else _beyond_between_0_and_1
            rows = beyond(rows, state.last_rows, state.stride)
        if model.kind == "dir-dir":
            counts = expected_pair_counts(data, rows, columns, self.engine)
        else:
            counts = expected_counts(data, np.stack((1.0 - rows, rows)), columns, self.engine)
        objective = counts.log_normaliser
        if self.use_priors:
            factors = (columns, rows) if model.kind == "dir-beta" else (rows, columns)
            objective += model.log_prior(*factors)
        if state.stride > 0.0 and not objective >= state.reached:
            state.longest = max(0.5 * state.stride, 0.1)
            state.stride = 0.0
            return state, {}
        fresh = FactorState(
            self._new_rows(model.priors, counts.rows, rows),
            self._simplex(counts.columns, columns, model.priors.concentration),
            state.priors,
            state.rows,
            state.columns,
            min(max(_GROWTH * state.stride, _FIRST_STRIDE), state.longest),
            _SLOW_GROWTH * state.longest,
            objective,
        )
        return fresh, {"objective": objective}

    def _new_rows(self, priors: Priors, counts: Floats, old: Floats) -> Floats:
        if self.model.kind == "dir-dir":
            return self._simplex(counts, old, priors.activation_concentration)
        ones, zeros = counts[..., 1], counts[..., 0]
        if self.use_priors:
            ones, zeros = ones + priors.alpha, zeros + priors.beta
        return shares_or(ones, ones + zeros, old)

    def _simplex(self, counts: Floats, old: Floats, concentration: Floats) -> Floats:
        counts = counts + concentration if self.use_priors else counts
        return shares_or(counts, counts.sum(axis=1, keepdims=True), old)


def _beyond_on_simplex(now: Floats, before: Floats, stride: float) -> Floats:
    """``normalise(now * (now / before) ** stride)``; what was or is next to nothing stays as it is."""
    safe = (now > _NOTHING) & (before > _NOTHING)
    ratio = np.divide(now, before, out=np.ones_like(now), where=safe)
    lifted = now * ratio**stride
    return np.asarray(lifted / lifted.sum(axis=1, keepdims=True))


def _beyond_between_0_and_1(now: Floats, before: Floats, stride: float) -> Floats:
    """The same for odds."""
    safe = (np.minimum(now, before) > _NOTHING) & (np.maximum(now, before) < 1.0 - _NOTHING)
    odds = np.divide(now * (1.0 - before), before * (1.0 - now), out=np.ones_like(now), where=safe)
    lifted = now * odds**stride
    return np.asarray(np.where(safe, lifted / (lifted + (1.0 - now)), now))
