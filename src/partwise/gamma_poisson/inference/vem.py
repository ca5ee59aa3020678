"""Variational EM: deterministic, its objective is a bound of the log-likelihood that never falls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.gamma_poisson.inference import m_steps
from partwise.gamma_poisson.inference.shapes import shape_of_mean_log
from partwise.gamma_poisson.inference.starts import perturbed_dictionary
from partwise.gamma_poisson.inference.variational import GammaPosterior, MeanField
from partwise.gamma_poisson.model import GammaPoissonModel, column_norms
from partwise.passes.side import Side

Floats = NDArray[np.float64]

OBJECTIVE_EVERY = 10


@dataclass
class VariationalState:
    """Dictionary and shapes, and the posterior of activations."""

    dictionary: Floats
    shape: Floats
    posterior: GammaPosterior


@dataclass
class VariationalEM:
    """Coordinate ascent on the evidence lower bound (Dikmen & Févotte 2012), with a faster M-step.

    Given the allocations, dictionary and activations' rates are updated together: w = (b / a) mean c, as in MCEM-C,
    where the dictionary alone would move by small steps. Where cells are missing that has no closed form, and the
    dictionary is updated alone.
    """

    shape: Floats
    rate: Floats
    estimate_shape: bool
    start: Floats | None
    engine: Engine = field(compare=False)

    def init(self, key: Key, data: SparseData) -> VariationalState:
        """A perturbed start (the even one is stationary), each sample's total spread evenly."""
        dictionary = perturbed_dictionary(key, data, self.shape, self.rate) if self.start is None else self.start.copy()
        model = GammaPoissonModel(dictionary, self.shape, self.rate)
        counts = Side(data, self.engine).even_counts(self.shape.size)
        posterior = MeanField(data, self.engine).posterior(model, counts)
        return VariationalState(dictionary, self.shape.copy(), posterior)

    def step(self, key: Key, data: SparseData, state: VariationalState) -> tuple[VariationalState, Mapping[str, float]]:
        """Allocations, activations, allocations again, then dictionary and rates; every tenth reports the bound."""
        mean_field = MeanField(data, self.engine)
        model = GammaPoissonModel(state.dictionary, state.shape, self.rate)
        due = key.iteration % OBJECTIVE_EVERY == 0
        posterior, bound, totals = mean_field.update(model, state.posterior, with_bound=due)
        counts, mean_logs = mean_field.feature_counts(model, posterior)
        state.dictionary = self._dictionary(data, model, posterior, counts)
        n_samples = data.shape[0]
        mean_log = mean_logs / n_samples
        if data.n_missing == 0:
            # The best rates given the allocations, jointly with the dictionary.
            rate = self.rate * (posterior.prior + totals / n_samples) / state.shape
            mean_log += np.log(posterior.rate[0]) - np.log(rate)
            posterior.rate = np.atleast_2d(rate)
        if self.estimate_shape:
            # The maximum of the bound over a_k: ψ(a_k) = log b_k + mean_n E[log h_nk].
            state.shape = shape_of_mean_log(np.log(self.rate) + mean_log)
        state.posterior = posterior
        return state, {**({"objective": bound} if due else {}), **column_norms(state.dictionary)}

    def model(self, state: VariationalState) -> GammaPoissonModel:
        """Dictionary, shapes and rates of a state."""
        return GammaPoissonModel(state.dictionary, state.shape, self.rate)

    def _dictionary(
        self, data: SparseData, model: GammaPoissonModel, posterior: GammaPosterior, counts: Floats
    ) -> Floats:
        if data.n_missing == 0:
            dictionary = m_steps.marginal_step(counts, data.shape[0], model.shape, self.rate)
        else:
            means, totals = MeanField(data, self.engine).means(posterior)
            exposure = Side(data.transposed, self.engine).exposure(means, totals=totals)
            dictionary = m_steps.conditional_step(counts, exposure)
        held = (data.column_sums > 0)[:, None]
        return np.where(held, np.maximum(dictionary, m_steps.SMALLEST_ENTRY), dictionary)
