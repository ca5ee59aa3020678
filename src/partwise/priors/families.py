"""Families of rate priors by name."""

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

import numpy as np

from partwise.errors import InvalidInputError
from partwise.priors.base import Fixed, PriorFamily, RatePrior
from partwise.priors.exponential_mixture import ExponentialMixture
from partwise.priors.flat import FlatPrior
from partwise.priors.gamma import GammaFamily
from partwise.priors.gamma_mixture import GammaMixtureFamily
from partwise.priors.mixture import GammaMixture, MixtureFamily
from partwise.priors.nonparametric import Nonparametric
from partwise.priors.point_gamma import PointGammaFamily
from partwise.priors.two_gamma import TwoGammaFamily

_WITH_OPTIONS: tuple[type[MixtureFamily], ...] = (
    GammaFamily,
    PointGammaFamily,
    TwoGammaFamily,
    ExponentialMixture,
    GammaMixtureFamily,
    Nonparametric,
)
FAMILIES: Mapping[str, PriorFamily] = MappingProxyType(
    {**{family.name: family() for family in _WITH_OPTIONS}, "flat": Fixed(FlatPrior())}
)
"""Names of priors."""


def resolve_family(prior: Any, argument: str = "prior") -> PriorFamily:
    """Get a family from its name, from itself, or from a fixed prior.

    Parameters
    ----------
    prior
        A name in `FAMILIES`, an object with ``fit``, ``pack`` and ``unpack``, or one with ``posterior``. Or their form
        in model files: an array whose rows are the weights, shapes and means of a `GammaMixture`, or the name of a
        family with pairs of its options and their values.
    argument
        Name of the argument, for messages.

    Examples
    --------
    >>> resolve_family("gamma")
    GammaFamily(tol=1e-09)
    """
    if isinstance(prior, str):
        if prior not in FAMILIES:
            raise InvalidInputError(
                f"{argument} is {prior!r}, which is not a family of priors: choose from {', '.join(FAMILIES)}, or pass"
                " a family or a prior."
            )
        return FAMILIES[prior]
    if isinstance(prior, tuple):
        return _with_options(prior, argument)
    if isinstance(prior, np.ndarray) and prior.ndim == 2 and prior.shape[0] == 3:
        return Fixed(GammaMixture(*prior))
    if isinstance(prior, type) or not isinstance(prior, PriorFamily | RatePrior):
        raise InvalidInputError(
            f"{argument} must be the name of a family of priors, a family (with fit, pack and unpack) or a prior (with"
            f" posterior), got {prior!r}."
        )
    return prior if isinstance(prior, PriorFamily) else Fixed(prior)


def _with_options(plain: tuple[Any, ...], argument: str) -> PriorFamily:
    """Rebuild a family from its `to_plain`."""
    found = {family.name: family for family in _WITH_OPTIONS}.get(plain[0]) if plain else None
    try:
        options = dict(plain[1:])
        if found is None or not set(options) <= {option.name for option in fields(found)}:
            raise ValueError("no such family, or no such option")
        return found(**options)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f'{argument} is {plain!r}, which is not a family with options such as ("exponential-mixture", ("ratio",'
            f" 1.5)) ({error})."
        ) from error
