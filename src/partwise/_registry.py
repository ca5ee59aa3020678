"""The one table of public names, from which the lazy package and ``partwise.load`` find what they import.

An entry says where a name lives: ``"module:attribute"``, or ``"module"`` for a public module. Nothing here is imported
before somebody asks for it, so that ``import partwise`` stays cheap and lower layers never import higher ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from partwise.errors import InvalidInputError

ESTIMATORS: Mapping[str, str] = MappingProxyType(
    {
        "AllocationNMF": "partwise.allocation.estimator:AllocationNMF",
        "BetaGammaPFA": "partwise.gamma_poisson.beta_gamma:BetaGammaPFA",
        "BinaryNMF": "partwise.binary.estimator:BinaryNMF",
        "LogisticPCA": "partwise.binary.logistic_pca:LogisticPCA",
        "EmpiricalBayesPoissonNMF": "partwise.empirical_bayes.estimator:EmpiricalBayesPoissonNMF",
        "GammaPoissonNMF": "partwise.gamma_poisson.estimator:GammaPoissonNMF",
        "PoissonNMF": "partwise.poisson.estimator:PoissonNMF",
    }
)
"""Every estimator that a model file may name."""

PUBLIC: Mapping[str, str] = MappingProxyType(
    {
        **ESTIMATORS,
        "allocation": "partwise.allocation",
        "BinaryMatrix": "partwise.core.data:BinaryMatrix",
        "Checkpoint": "partwise.core.checkpoint:Checkpoint",
        "CountMatrix": "partwise.core.data:CountMatrix",
        "Table": "partwise.io.table:Table",
        "as_table": "partwise.core.coerce:as_table",
        "bridges": "partwise.bridges",
        "datasets": "partwise.datasets",
        "ebpm": "partwise.empirical_bayes.means:ebpm",
        "errors": "partwise.errors",
        "gamma_poisson": "partwise.gamma_poisson",
        "likelihood": "partwise.likelihood",
        "load": "partwise.core.persistence:load",
        "metrics": "partwise.metrics",
        "on_disk": "partwise.storage.on_disk:on_disk",
        "plotting": "partwise.plotting",
        "read": "partwise.io:read",
        "report": "partwise.reporting.page:report",
        "selection": "partwise.selection",
    }
)
"""Everything that ``partwise.<name>`` offers."""


def resolve(address: str) -> Any:
    """Import what an entry of the table points to.

    Parameters
    ----------
    address
        ``"module:attribute"`` or ``"module"``.

    Returns
    -------
    object
        The attribute, or the module itself.
    """
    module_name, _, attribute = address.partition(":")
    module = import_module(module_name)
    return getattr(module, attribute) if attribute else module


def find_estimator(name: str) -> type[Any]:
    """Find an estimator class by its public name, and nothing but an estimator class.

    Parameters
    ----------
    name
        Class name as a model file stores it, such as ``"PoissonNMF"``. It is looked up, never imported by itself:
        a hostile file cannot name code of its own.

    Returns
    -------
    type
        The class.

    Raises
    ------
    InvalidInputError
        If there is no such estimator in this version.
    """
    if name not in ESTIMATORS:
        known = ", ".join(sorted(ESTIMATORS))
        raise InvalidInputError(
            f"this version of partwise has no estimator called {name!r} (it has {known}): upgrade partwise if a newer "
            "version wrote this name."
        )
    found: type[Any] = resolve(ESTIMATORS[name])
    return found
