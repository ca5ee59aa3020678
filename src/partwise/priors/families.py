"""Families of rate priors by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from partwise.errors import InvalidInputError
from partwise.priors.base import PriorFamily, RatePrior
from partwise.priors.exponential_mixture import ExponentialMixture
from partwise.priors.fixed import Fixed
from partwise.priors.flat import FlatPrior
from partwise.priors.gamma import GammaFamily
from partwise.priors.gamma_mixture import GammaMixtureFamily
from partwise.priors.mixture import GammaMixture
from partwise.priors.nonparametric import Nonparametric
from partwise.priors.point_gamma import PointGammaFamily
from partwise.priors.two_gamma import TwoGammaFamily

FAMILIES: Mapping[str, PriorFamily] = MappingProxyType(
    {
        "gamma": GammaFamily(),
        "point-gamma": PointGammaFamily(),
        "two-gamma": TwoGammaFamily(),
        "exponential-mixture": ExponentialMixture(),
        "gamma-mixture": GammaMixtureFamily(),
        "nonparametric": Nonparametric(),
        "flat": Fixed(FlatPrior()),
    }
)
"""What a prior may be called."""


def resolve_family(prior: Any, argument: str = "prior") -> PriorFamily:
    """A family from its name, from itself, or from a prior that is to stay as it is.

    Parameters
    ----------
    prior
        A name of `FAMILIES`, an object with ``fit``, ``pack`` and ``unpack``, or one with ``posterior``; or an array
        whose rows are the weights, shapes and means of a `GammaMixture`.
    argument
        What messages call it.

    Examples
    --------
    >>> resolve_family("gamma")
    GammaFamily(tol=1e-09)
    """
    if isinstance(prior, str):
        if prior not in FAMILIES:
            raise InvalidInputError(
                f"{argument} is {prior!r}, which is no family of priors: choose from {', '.join(FAMILIES)}, or pass a"
                " family or a prior."
            )
        return FAMILIES[prior]
    if isinstance(prior, np.ndarray) and prior.ndim == 2 and prior.shape[0] == 3:
        return Fixed(GammaMixture(*prior))
    if isinstance(prior, type) or not isinstance(prior, PriorFamily | RatePrior):
        raise InvalidInputError(
            f"{argument} must be the name of a family of priors, a family (with fit, pack and unpack) or a prior (with"
            f" posterior), got {prior!r}."
        )
    return prior if isinstance(prior, PriorFamily) else Fixed(prior)
