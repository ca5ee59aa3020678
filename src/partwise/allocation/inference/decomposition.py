"""Best latent decomposition by sign-split multiplicative updates, from a KL-NMF start, without storing S."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field

import numpy as np
from scipy.special import digamma

from partwise.allocation.inference.labels import best_order, kl_factors
from partwise.allocation.kernels import decomposition as kernels
from partwise.allocation.model import AllocationModel
from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.engines.blocks import TARGET_NONZEROS, row_blocks
from partwise.kernels.arrays import Floats
from partwise.poisson.inference.coordinate import with_columns
from partwise.poisson.inference.state import Start

_SMALLEST_STEP = 2.0**-20
_LARGEST_STEP = 4.0
_FLOOR = 1e-200


@dataclass
class DecompositionState:
    """μ (samples x parts) and ν (features x parts) of Eq. 14, the sums of their S, log p(S), and the step."""

    activations: Floats
    dictionary: Floats
    sample_counts: Floats
    feature_counts: Floats
    objective: float
    exponent: float = 1.0


@dataclass
class BestDecomposition:
    """ν ← ν (∇⁺ / ∇⁻)^η, and μ likewise (Eq. 16), both at once.

    η is halved until log p(S) does not fall, and grows again after a success. The start is KL-NMF.
    """

    model: AllocationModel
    _: KW_ONLY
    start: Start
    start_iterations: int
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: SparseData) -> DecompositionState:
        """Factors of KL-NMF, its parts in the best order."""
        whole, engine = with_columns(data, self.engine)
        factors = kl_factors(key, whole, self.model.n_components, self.start, self.start_iterations, engine)
        activations, dictionary = np.asarray(factors.activations), factors.dictionary
        order = best_order(self.model, evaluate(self.model, data, activations, dictionary, self.engine).sample_counts)
        columns = [np.ascontiguousarray(factor[:, order]) for factor in (activations, dictionary)]
        return evaluate(self.model, data, columns[0], columns[1], self.engine)

    def step(
        self, key: Key, data: SparseData, state: DecompositionState
    ) -> tuple[DecompositionState, Mapping[str, float]]:
        """One update of both factors; reports log p(S), which never falls."""
        ratios = [_ratio(own) for own in gradients(self.model, data, state, self.engine)]
        factors = state.activations, state.dictionary
        exponent = state.exponent
        while exponent >= _SMALLEST_STEP:
            activations, dictionary = (_moved(*own, exponent) for own in zip(factors, ratios, strict=True))
            moved = evaluate(self.model, data, activations, dictionary, self.engine)
            if moved.objective >= state.objective:
                moved.exponent = min(_LARGEST_STEP, 1.2 * exponent)
                return moved, {"objective": moved.objective, "exponent": exponent}
            exponent *= 0.5
        # No step in this direction gains: it is stationary within the precision of the tables.
        return state, {"objective": state.objective, "exponent": 0.0}


def evaluate(
    model: AllocationModel, data: SparseData, activations: Floats, dictionary: Floats, engine: Engine
) -> DecompositionState:
    """Sums of S as Eq. 14 gives it, and log p(S)."""
    sample_counts = np.empty_like(activations)

    def one(block: tuple[int, int]) -> tuple[Floats, float]:
        feature_counts = np.zeros_like(dictionary)
        cells, factors = (data.indptr, data.indices, data.values), (activations, dictionary)
        sums = sample_counts, feature_counts
        return feature_counts, kernels.decomposition_sums(cells, factors, kernels.LOG_GAMMA_TABLE, *block, *sums)

    feature_counts, log_factorials = engine.map_reduce(one, _blocks(data))
    objective = model.log_constant(data.row_sums) + model.log_sums(sample_counts, feature_counts) - log_factorials
    return DecompositionState(activations, dictionary, sample_counts, feature_counts, objective)


def gradients(
    model: AllocationModel, data: SparseData, state: DecompositionState, engine: Engine
) -> tuple[Floats, Floats]:
    """∇⁺ and ∇⁻ of log p(S) in log μ and log ν (Eq. 15), the middle axis being the sign."""
    by_sample = digamma(model.activation_concentration + state.sample_counts)
    by_feature = digamma(model.dictionary_concentration[:, None] + state.feature_counts)
    by_component = digamma(model.dictionary_concentration.sum() + state.feature_counts.sum(axis=0))
    sample_terms = _by_sign(by_sample)
    feature_terms = _by_sign(by_feature) + _by_sign(-by_component)[None]
    sample_gradients = np.empty_like(sample_terms)

    def one(block: tuple[int, int]) -> Floats:
        out = np.zeros_like(feature_terms)
        cells, factors = (data.indptr, data.indices, data.values), (state.activations, state.dictionary)
        terms = sample_terms, feature_terms
        table = kernels.DIGAMMA_TABLE
        kernels.decomposition_gradients(cells, factors, terms, table, *block, (sample_gradients, out))
        return out

    return sample_gradients, engine.map_reduce(one, _blocks(data))


def _blocks(data: SparseData) -> list[tuple[int, int]]:
    return row_blocks(data.indptr, max(TARGET_NONZEROS, 16 * data.shape[1]))


def _by_sign(terms: Floats) -> Floats:
    return np.stack((np.maximum(terms, 0.0), np.maximum(-terms, 0.0)), axis=-2)


def _ratio(gradient: Floats) -> Floats:
    """∇⁺ / ∇⁻, or 1 if both vanish: a factor without counts does not change."""
    plus, minus = gradient[:, 0], gradient[:, 1]
    return np.divide(plus + _FLOOR, minus + _FLOOR)


def _moved(factor: Floats, ratio: Floats, exponent: float) -> Floats:
    """The factor after a step, its largest entry in each row 1: S does not depend on the scale of a row."""
    moved = factor * ratio**exponent
    largest = moved.max(axis=1, keepdims=True)
    return np.asarray(np.maximum(moved / np.where(largest > 0, largest, 1.0), _FLOOR))
