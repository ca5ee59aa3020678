"""Online EM: compute the dictionary from a running average over batches of samples."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.gamma_poisson.inference import m_steps
from partwise.gamma_poisson.inference.gibbs import Chain, GibbsEStep
from partwise.gamma_poisson.inference.starts import poisson_factors, with_noise
from partwise.gamma_poisson.inference.vem import MeanField
from partwise.gamma_poisson.model import GammaPoissonModel, MarginalEM, column_norms
from partwise.kernels.arrays import Floats
from partwise.passes.batches import expected_in_groups
from partwise.passes.side import Side

_FORGETTING = 0.7
# The first dictionary is fitted to this many rows, or to a whole batch if that has more.
_START_ROWS = 2000


@dataclass
class OnlineState:
    """Averages over the samples seen, and their number.

    Attributes
    ----------
    shape
        Shapes of the prior.
    statistic
        The average of c_nfk, features x parts, with what missing cells and batch factors withhold.
    n_seen
        Number of samples seen.
    in_groups
        The average contribution of a sample to the expected totals of each batch, batches x features; empty without.
    """

    shape: Floats
    statistic: Floats
    n_seen: int
    in_groups: Floats = field(default_factory=lambda: np.zeros((0, 0)))


@dataclass(kw_only=True)
class OnlineEM(MarginalEM):
    """Online EM (Cappé & Moulines 2009): w = (b / a) times a running average of the allocations of a sample.

    A batch's chain starts from its variational posterior, so that nothing is stored for a sample between visits. In
    every pass, batches are cut from a new permutation of the samples, or of blocks of samples if these are on disk.
    """

    batch_size: int
    draws: int
    burn_in: int

    def init(self, key: Key, data: SparseData) -> OnlineState:
        """The statistic for a first dictionary: a Poisson factorization of some rows, with noise."""
        dictionary = self.start
        if dictionary is None:
            n_rows = min(data.shape[0], max(self.batch_size, _START_ROWS))
            first = poisson_factors(key, data.rows(0, n_rows), self.shape, self.rate, self.engine)[0]
            dictionary = with_noise(key, data, first, self.shape, self.rate)
        return OnlineState(self.shape.copy(), dictionary * (self.shape / self.rate), 0)

    def step(self, key: Key, data: SparseData, state: OnlineState) -> tuple[OnlineState, Mapping[str, float]]:
        """Add the next batch; report the bound of all data, estimated from the batch."""
        n_samples = data.shape[0]
        n_batches = -(-n_samples // self.batch_size)
        number, batch = divmod(key.iteration - 1, n_batches)
        shuffled = key.for_stage("batches").at(number).generator()
        if data.by_rows:
            # Each block of rows on disk is read once per pass. Blocks come in a new order; rows inside them do not.
            place = int(shuffled.permutation(n_batches)[batch])
            taken = data.rows(place * n_samples // n_batches, (place + 1) * n_samples // n_batches)
        else:
            taken = data.take(np.sort(np.array_split(shuffled.permutation(n_samples), n_batches)[batch]))
        bound = self.absorb(key, taken, state)
        return state, {"objective": bound * n_samples / taken.shape[0], **column_norms(self.model(state).dictionary)}

    def absorb(self, key: Key, batch: SparseData, state: OnlineState) -> float:
        """Move the state towards a batch; return the variational bound of the batch before that.

        The weight of batch t is t^-0.7, where t - 1 is the number of samples seen before in units of this batch.
        """
        model = self.model(state)
        model = replace(model, dictionary=np.maximum(model.dictionary, m_steps.SMALLEST_ENTRY))
        mean_field = MeanField(batch, self.engine)
        counts = Side(batch, self.engine).even_counts(model.shape.size)
        posterior, bound = mean_field.fit(model, mean_field.posterior(model, counts))
        sampler = GibbsEStep.smoothed(batch, self.engine, with_totals=self.estimate_shape)
        averages = sampler.run(key, Chain(posterior.counts), model, n_draws=self.draws, burn_in=self.burn_in)
        n_samples = batch.shape[0]
        weight = (1.0 + state.n_seen / n_samples) ** -_FORGETTING
        if batch.weights is None:
            missing = m_steps.expected_missing(batch, model.dictionary, averages.activations, self.engine)
            fresh = (averages.feature_counts + missing) / n_samples
        else:
            fresh = m_steps.unweighted_counts(batch, averages.feature_counts, averages.activations, self.engine)
            fresh /= n_samples
            seen = expected_in_groups(Side(batch, self.engine), averages.activations, model.dictionary) / n_samples
            state.in_groups = (1.0 - weight) * state.in_groups + weight * seen if state.in_groups.size else seen
        state.statistic = (1.0 - weight) * state.statistic + weight * fresh
        state.shape = m_steps.moved_shapes(Side(batch, self.engine), averages.totals, state.shape, weight)
        state.n_seen += n_samples
        return bound

    def expected_in_groups(self, data: SparseData, state: OnlineState) -> Floats:
        """Expected totals of each feature in each batch, without batch factors."""
        return state.in_groups * data.shape[0]

    def model(self, state: OnlineState) -> GammaPoissonModel:
        """Dictionary, shapes and rates of a state."""
        return GammaPoissonModel(state.statistic * (self.rate / state.shape), state.shape, self.rate)
