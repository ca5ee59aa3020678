"""What a fit returns to users: the posterior of a factor, and all arrays on the users' scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partwise.core.keys import key_from
from partwise.empirical_bayes.inference.rates import EmpiricalBayesState, Factor, is_flat
from partwise.empirical_bayes.inference.sweep import Problem, Settings, size_factors
from partwise.kernels.arrays import Floats, Integers
from partwise.priors.base import Fixed, PriorFamily, RatePrior
from partwise.priors.components import PosteriorComponents
from partwise.priors.mixture import GammaMixture, posterior_components


@dataclass(frozen=True, eq=False)
class FactorPosterior:
    """Independent posteriors of the entries of a factor (mean-field approximation).

    Attributes
    ----------
    mean
        Posterior mean of each entry, rows x parts.
    counts, exposure
        Expected counts and exposures (a single row if all rows have the same) behind each entry.
    priors
        One prior per part.
    scales
        Known factors of the rows, which multiply the entries of each row.
    """

    mean: Floats
    counts: Floats = field(repr=False)
    exposure: Floats = field(repr=False)
    priors: Sequence[RatePrior] = field(repr=False)
    scales: Floats = field(repr=False)

    @property
    def variance(self) -> Floats:
        """Variance of each entry."""
        parts = [self._components(k).variance() for k in range(len(self.priors))]
        return np.stack(parts, axis=1) * self.scales[:, None] ** 2

    def quantile(self, level: float) -> Floats:
        """The value below which each entry lies with posterior probability ``level``.

        Parameters
        ----------
        level
            Between 0 and 1.
        """
        parts = [self._components(k).quantile(level) for k in range(len(self.priors))]
        return np.stack(parts, axis=1) * self.scales[:, None]

    def interval(self, level: float = 0.9) -> Floats:
        """Lower and upper bounds of the central credible intervals, rows x parts x 2.

        Parameters
        ----------
        level
            Posterior probability of each interval.
        """
        parts = [self._components(k).interval(level) for k in range(len(self.priors))]
        return np.stack(parts, axis=1) * self.scales[:, None, None]

    def sample(self, n_draws: int, *, random_state: Any = 0) -> Floats:
        """Posterior draws, draws x rows x parts.

        Parameters
        ----------
        n_draws
            Number of draws.
        random_state
            Seed: int, Generator or None.
        """
        key = key_from(random_state).for_stage("factor")
        parts = [self._components(k).draw(n_draws, key.at(k).generator()) for k in range(len(self.priors))]
        return np.stack(parts, axis=2) * self.scales[:, None]

    def _components(self, k: int) -> PosteriorComponents:
        return posterior_components(self.priors[k], self.counts[:, k], self.exposure[:, k])


# A fit on the users' scale: parts that sum to 1, activations that are expected counts.

Packed = tuple[Floats, Integers]


@dataclass(frozen=True, eq=False)
class ScaledFit:
    """A fit with parts that sum to 1, and activations that are expected counts.

    The scale of the fit is kept if a prior was given, or if a prior cannot be rescaled.

    Attributes
    ----------
    dictionary, geometric
        E[w_fk] and exp(E[log w_fk]), including the background.
    dictionary_counts, dictionary_exposure
        Expected counts and exposures, relative to the background.
    background
        Known factors of the features.
    feature_shares, size_unit
        What gives new samples their size factors.
    mean_activations, component_counts
        Mean activation, and total expected counts, of each part.
    activation_priors, dictionary_priors
        Parameters of the priors, and the number of parameters of each.
    """

    dictionary: Floats
    geometric: Floats
    dictionary_counts: Floats
    dictionary_exposure: Floats
    background: Floats
    feature_shares: Floats
    size_unit: float
    mean_activations: Floats
    component_counts: Floats
    activation_priors: Packed
    dictionary_priors: Packed

    @classmethod
    def of(cls, problem: Problem, state: EmpiricalBayesState, settings: Settings) -> ScaledFit:
        """Convert the state of a fit."""
        data, activations, dictionary = problem.samples.data, state.activations, state.dictionary
        n_samples, n_features = data.shape
        background = np.ones(n_features) if problem.features.scales is None else problem.features.scales
        families = settings.activation_family, settings.dictionary_family
        shares = data.column_sums / data.total
        unit = 1.0
        if settings.size_factors:
            unit = float(size_factors(data, shares[:, None], problem.samples.engine).mean())
        means, geometric = dictionary.mean * background[:, None], dictionary.geometric * background[:, None]
        scale = np.ones(state.n_components)
        if all(_can_be_scaled(*pair) for pair in zip(families, (activations, dictionary), strict=True)):
            scale = np.where(means.sum(axis=0) > 0, means.sum(axis=0), 1.0)
        return cls(
            dictionary=means / scale,
            geometric=geometric / scale,
            dictionary_counts=dictionary.counts,
            dictionary_exposure=dictionary.exposure * scale,
            background=background,
            feature_shares=shares,
            size_unit=unit,
            mean_activations=problem.samples.weighted(activations.mean)[1] / n_samples * scale,
            component_counts=dictionary.counts.sum(axis=0),
            activation_priors=_scaled(activations, families[0], scale),
            dictionary_priors=_scaled(dictionary, families[1], 1.0 / scale),
        )


def _can_be_scaled(family: PriorFamily, factor: Factor) -> bool:
    """Whether the priors of a factor are learned gamma mixtures (or there are none)."""
    if isinstance(family, Fixed):
        return is_flat(family)
    return all(isinstance(prior, GammaMixture) for prior in factor.priors(family))


def _scaled(factor: Factor, family: PriorFamily, scale: Floats) -> Packed:
    if np.all(scale == 1.0) or isinstance(family, Fixed):
        return factor.prior_numbers, factor.prior_sizes
    priors = zip(factor.priors(family), scale, strict=True)
    numbers = [prior.scaled(float(factor)).pack() for prior, factor in priors if isinstance(prior, GammaMixture)]
    return np.concatenate(numbers), factor.prior_sizes
