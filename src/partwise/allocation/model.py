"""Bayesian NMF as an allocation model: counts are split over parts, and everything else can be integrated out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.core.validation import positive_each
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats

Counts = NDArray[np.int64]

MANY_COMPONENTS = 256
"""From so many parts on a sweep goes feature by feature: draws that look at all parts take longer there."""


class Drawn(NamedTuple):
    """The result of `AllocationModel.simulate`: counts as a CSR array, and the true parameters.

    ``activations`` are h_nk L_n, so that the expected counts are ``activations @ dictionary.T``; ``allocations`` are
    samples x features x parts.
    """

    counts: Any
    allocations: Counts
    activations: Floats
    dictionary: Floats


class Concentrations(NamedTuple):
    """α, one per feature, and β, one per part."""

    dictionary: Floats
    activation: Floats


class SamplePrior(NamedTuple):
    """The random parts of a sample: h_n. ~ Dirichlet(β) and L_n ~ Gamma(a, b). Methods take any samples.

    Attributes
    ----------
    concentration
        β, one per part.
    length_shape, length_rate
        a and b.
    """

    concentration: Floats
    length_shape: float
    length_rate: float

    def expected_activations(self, sample_counts: Any) -> Floats:
        """Conditional means of h_nk L_n given S_n+k."""
        counts = np.asarray(sample_counts, dtype=np.float64)
        shares = self.concentration + counts
        lengths = (self.length_shape + counts.sum(axis=1)) / (self.length_rate + 1.0)
        return np.asarray(shares * (lengths / shares.sum(axis=1))[:, None])

    def log_lengths(self, lengths: Any) -> float:
        """The terms of log p(S) that need only the samples' totals S_n++."""
        totals = np.asarray(lengths, dtype=np.float64)
        a, b = self.length_shape, self.length_rate
        per_sample = log_dirichlet_constant(self.concentration) + a * np.log(b) - gammaln(a)
        constant = totals.size * per_sample - (a * totals.size + totals.sum()) * np.log1p(b)
        return float(constant + (gammaln(a + totals) - gammaln(self.concentration.sum() + totals)).sum())


@dataclass(frozen=True, eq=False)
class AllocationModel:
    """L_n ~ Gamma(a, b), w_.k ~ Dirichlet(α), h_n. ~ Dirichlet(β), S_nfk ~ Poisson(w_fk h_nk L_n) (Eq. 4, 5).

    Parameters
    ----------
    n_features, n_components
        Sizes.
    dictionary_concentration
        α: a number, or one per feature.
    activation_concentration
        β: a number, or one per part.
    length_shape, length_rate
        a and b.
    estimated
        Which of α (then the same for all features) and β are unknown: names of parameters. Their given values are the
        start of the estimation. Each has a Gamma(1, 1) prior.
    fixed
        Known parts, features x parts, with columns that sum to 1: the first of all parts. None: all parts are free.

    Examples
    --------
    >>> from partwise.core.keys import Key
    >>> model = AllocationModel(4, 2, 0.5, 1.0, 20.0, 1.0)
    >>> drawn = model.simulate(Key(0), 3)
    >>> drawn.counts.shape, drawn.allocations.shape
    ((3, 4), (3, 4, 2))
    >>> bool((drawn.allocations.sum(axis=2) == drawn.counts.toarray()).all())
    True
    """

    n_features: int
    n_components: int
    dictionary_concentration: Any = 1.0
    activation_concentration: Any = 1.0
    length_shape: float = 1.0
    length_rate: float = 1.0
    estimated: tuple[str, ...] = ()
    fixed: Any = None

    def __post_init__(self) -> None:
        features, components = (self.n_features, "features"), (self.n_components, "components")
        for name, sizes in (("dictionary_concentration", features), ("activation_concentration", components)):
            object.__setattr__(self, name, positive_each(getattr(self, name), name, *sizes))
        for name in ("length_shape", "length_rate"):
            value = float(getattr(self, name))
            if not 0 < value < np.inf:
                raise InvalidInputError(f"{name} must be positive and finite, got {value}.")
            object.__setattr__(self, name, value)
        fixed = np.zeros((self.n_features, 0)) if self.fixed is None else np.asarray(self.fixed, dtype=np.float64)
        object.__setattr__(self, "fixed", fixed)

    @property
    def n_fixed(self) -> int:
        """Number of known parts."""
        return int(self.fixed.shape[1])

    def fingerprint(self) -> str:
        """All parameters as text. A checkpoint uses it to recognise the model."""
        arrays = [array.tobytes().hex() for array in (self.dictionary_concentration, self.activation_concentration)]
        known = (self.fixed.tobytes().hex(),) if self.n_fixed else ()
        sizes = self.n_features, self.n_components
        return repr((*sizes, *arrays, self.length_shape, self.length_rate, self.estimated, *known))

    def with_concentrations(self, concentrations: Concentrations) -> AllocationModel:
        """The model with other concentrations."""
        if not self.estimated:
            return self
        dictionary, activation = concentrations
        return replace(self, dictionary_concentration=dictionary, activation_concentration=activation)

    @property
    def log_prior_of_concentrations(self) -> float:
        """Log density of the estimated parameters, under Gamma(1, 1) priors."""
        dictionary, activation = self.concentrations
        found = {"dictionary_concentration": dictionary[:1], "activation_concentration": activation}
        return -float(sum(found[name].sum() for name in self.estimated))

    @property
    def concentrations(self) -> Concentrations:
        """The concentrations of this model."""
        return Concentrations(self.dictionary_concentration.copy(), self.activation_concentration.copy())

    def simulate(self, key: Key, n_samples: int) -> Drawn:
        """Draw everything for this many samples (Eq. 4, 5).

        Parameters
        ----------
        key
            Key of the random numbers.
        n_samples
            Number of samples.
        """
        rng = key.for_stage("simulate").generator()
        dictionary = self.with_fixed(rng.dirichlet(self.dictionary_concentration, size=self.n_components).T)
        shares = rng.dirichlet(self.activation_concentration, size=n_samples)
        activations = shares * rng.gamma(self.length_shape, 1.0 / self.length_rate, size=(n_samples, 1))
        allocations = rng.poisson(activations[:, None, :] * dictionary[None, :, :])
        return Drawn(sp.csr_array(allocations.sum(axis=2)), allocations, activations, np.ascontiguousarray(dictionary))

    @property
    def sample_prior(self) -> SamplePrior:
        """The priors of a sample."""
        return SamplePrior(self.activation_concentration, self.length_shape, self.length_rate)

    def log_constant(self, lengths: Any) -> float:
        """Log C_X, which depends on the data through the samples' totals S_n++ alone."""
        return self._log_dictionary_constant + self.sample_prior.log_lengths(lengths)

    @property
    def _log_dictionary_constant(self) -> float:
        return (self.n_components - self.n_fixed) * log_dirichlet_constant(self.dictionary_concentration)

    def log_known(self, data: SparseData) -> float:
        """The terms of log p(X) that are known exactly: those of the samples' totals, and Σ log x_nf!."""
        a, b, totals = self.length_shape, self.length_rate, data.row_sums
        lengths = a * np.log(b) - gammaln(a) + gammaln(a + totals) - (a + totals) * np.log1p(b)
        return float(lengths.sum() - gammaln(data.values + 1.0).sum())

    def log_sums(self, sample_counts: Any, feature_counts: Any) -> float:
        """The terms of l(S) in Eq. 8 and 9 that need only sums: all but Σ log Γ(S_nfk + 1).

        Parameters
        ----------
        sample_counts, feature_counts
            S_n+k, samples x parts, and S_+fk, features x parts. They need not be whole numbers.
        """
        by_sample = np.asarray(sample_counts, dtype=np.float64)
        return _sum_of_log_gammas(self.activation_concentration, by_sample) + self._log_features(feature_counts)

    def _log_features(self, feature_counts: Any) -> float:
        counts, alpha = np.asarray(feature_counts), self.dictionary_concentration
        by_feature, known = counts[:, self.n_fixed :], counts[:, : self.n_fixed]
        columns = gammaln(alpha.sum() + by_feature.sum(axis=0, dtype=np.float64))
        free = _sum_of_log_gammas(alpha[:, None], by_feature) - float(columns.sum())
        return free + float(xlogy(known, self.fixed).sum())

    def log_allocation(self, allocations: Any) -> float:
        """Log p(S) of an allocation, samples x features x parts (Eq. 7). Entries may be any nonnegative real numbers.

        Parameters
        ----------
        allocations
            S_nfk, dense: for large data use sums, `log_constant` and `log_sums`.
        """
        parts = np.asarray(allocations, dtype=np.float64)
        expected = (self.n_features, self.n_components)
        if parts.ndim != 3 or parts.shape[1:] != expected:
            raise InvalidInputError(
                f"allocations must be samples x {expected[0]} features x {expected[1]} parts, got shape {parts.shape}."
            )
        sums = self.log_sums(parts.sum(axis=1), parts.sum(axis=0))
        return self.log_constant(parts.sum(axis=(1, 2))) + sums - float(gammaln(parts + 1.0).sum())

    def log_labels(self, log_samples: float, feature_counts: Any, log_factorials: float) -> float:
        """Log p(X, labels) with one label per token: p(S) shared equally among all labellings that give S.

        Parameters
        ----------
        log_samples
            The terms that need only the labels' sums over each sample: `log_lengths` and Σ log Γ(β_k + S_n+k).
        feature_counts
            Sums of the labels over each feature.
        log_factorials
            Σ log x_nf! of the data.
        """
        return self._log_dictionary_constant + log_samples + self._log_features(feature_counts) - log_factorials

    def dictionary_posterior(self, feature_counts: Any) -> Floats:
        """Parameters of the Dirichlet distributions of w_.k given S (Eq. 6), one per column: α_f + S_+fk."""
        return np.asarray(self.dictionary_concentration[:, None] + feature_counts)

    def activation_posterior(self, sample_counts: Any) -> Floats:
        """Parameters of the Dirichlet distributions of h_n. given S, one per row: β_k + S_n+k."""
        return np.asarray(self.activation_concentration + sample_counts)

    def length_posterior(self, lengths: Any) -> tuple[Floats, float]:
        """Shape (of each sample) and rate of the gamma distributions of L_n given S: a + S_n++ and b + 1."""
        return np.asarray(self.length_shape + np.asarray(lengths, dtype=np.float64)), self.length_rate + 1.0

    def expected_factors(self, sample_counts: Any, feature_counts: Any) -> tuple[Floats, Floats]:
        """Conditional means given S of the activations h_nk L_n, and of the dictionary."""
        return self.sample_prior.expected_activations(sample_counts), self.expected_dictionary(feature_counts)

    def expected_dictionary(self, feature_counts: Any) -> Floats:
        """Conditional means of the dictionary given S."""
        weights = self.dictionary_posterior(feature_counts)
        return self.with_fixed(np.asarray(weights / weights.sum(axis=0)))

    def with_fixed(self, dictionary: NDArray[Any]) -> NDArray[Any]:
        """The dictionary with its first parts replaced, in place, by the known ones."""
        dictionary[:, : self.n_fixed] = self.fixed
        return dictionary


def log_dirichlet_constant(concentration: Floats) -> float:
    """Log Γ(Σ c) - Σ log Γ(c)."""
    return float(gammaln(concentration.sum()) - gammaln(concentration).sum())


def _sum_of_log_gammas(prior: Floats, counts: NDArray[Any]) -> float:
    """Σ log Γ(prior + counts). With many parts most counts are 0, and their terms are known."""
    shapes, above = np.broadcast_to(prior, counts.shape), counts != 0
    base = shapes[above]
    zeros = float(gammaln(prior).sum()) * (counts.size / prior.size)
    return zeros + float((gammaln(base + counts[above]) - gammaln(base)).sum())
