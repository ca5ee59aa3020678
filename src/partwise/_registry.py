"""The one table of models and public names. The package, the command and ``partwise.load`` look things up here.

An address is ``"module:attribute"``, or ``"module"`` for a public module. Nothing is imported before it is used, so
``import partwise`` stays fast and lower layers never import higher ones.
"""

import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

from partwise.errors import BrokenModelWarning, InvalidInputError

GROUP = "partwise.models"
"""Other distributions register their models as entry points of this group: ``name = module:Class``."""


class RegisteredModel(NamedTuple):
    """Where an estimator class is defined, and its names in the command: the model's own name, then its variants."""

    address: str
    names: tuple[str, ...]
    also: tuple[str, ...] = ()
    """Other names that people know the model by."""

    @property
    def class_name(self) -> str:
        """Name of the class."""
        return self.address.partition(":")[2].rpartition(".")[2]


# A new family is one line here (and one in __init__.py for type checkers and editors).
BUILT_IN: tuple[RegisteredModel, ...] = (
    RegisteredModel("partwise.poisson.estimator:PoissonNMF", ("poisson",)),
    RegisteredModel("partwise.negative_binomial.estimator:NegativeBinomialNMF", ("negative-binomial",)),
    RegisteredModel("partwise.gamma_poisson.estimator:GammaPoissonNMF", ("gamma-poisson",)),
    RegisteredModel("partwise.gamma_poisson.beta_gamma:BetaGammaPFA", ("beta-gamma-pfa",)),
    RegisteredModel("partwise.allocation.estimator:AllocationNMF", ("allocation",), ("lda",)),
    RegisteredModel("partwise.empirical_bayes.estimator:EmpiricalBayesPoissonNMF", ("empirical-bayes-poisson",)),
    RegisteredModel("partwise.binary.estimator:BinaryNMF", ("binary", "beta-dir", "dir-beta", "dir-dir")),
    RegisteredModel("partwise.binary.logistic_pca:LogisticPCA", ("logistic-pca",)),
)

PUBLIC: Mapping[str, str] = MappingProxyType(
    {
        **{model.class_name: model.address for model in BUILT_IN},
        "allocation": "partwise.allocation",
        "BinaryMatrix": "partwise.core.data:BinaryMatrix",
        "Checkpoint": "partwise.core.checkpoint:Checkpoint",
        "CountMatrix": "partwise.core.data:CountMatrix",
        "Table": "partwise.io.table:Table",
        "as_table": "partwise.core.coerce:as_table",
        "bridges": "partwise.bridges",
        "consensus": "partwise.restarts.consensus:consensus",
        "contract": "partwise.contract",
        "count_texts": "partwise.text.counting:count_texts",
        "datasets": "partwise.datasets",
        "ebpm": "partwise.empirical_bayes.means:ebpm",
        "errors": "partwise.errors",
        "gamma_poisson": "partwise.gamma_poisson",
        "likelihood": "partwise.likelihood",
        "load": "partwise.contract.model_file:load",
        "match": "partwise.refit.matching:match",
        "metrics": "partwise.metrics",
        "on_disk": "partwise.storage.on_disk:on_disk",
        "pl": "partwise.pl",
        "plotting": "partwise.plotting",
        "read": "partwise.io:read",
        "refit": "partwise.refit",
        "restarts": "partwise.restarts",
        "report": "partwise.reporting.page:report",
        "selection": "partwise.selection",
        "tl": "partwise.tl",
        "text": "partwise.text",
    }
)
"""Everything that ``partwise.<name>`` offers."""


@cache
def registered_models() -> tuple[RegisteredModel, ...]:
    """All models: those of partwise, then those of other distributions. These cannot replace ours."""
    from importlib.metadata import entry_points  # slow to import, and most processes never list all models

    found = {model.address: model for model in BUILT_IN}
    taken = {name for model in BUILT_IN for name in (*model.names, *model.also, model.class_name)}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        address = point.value.replace(" ", "")
        own = found.get(address, RegisteredModel(address, ()))
        if point.name not in taken and own.class_name not in taken:
            found[address] = own._replace(names=(*own.names, point.name))
    return tuple(found.values())


def _candidates() -> Iterator[RegisteredModel]:
    """Look among our own models first: listing what is installed takes time, and most processes need no other model."""
    yield from BUILT_IN
    yield from registered_models()


def model_names() -> dict[str, str]:
    """Names in the command, and the class behind each.

    Examples
    --------
    >>> model_names()["poisson"], model_names()["dir-beta"]
    ('PoissonNMF', 'BinaryNMF')
    """
    return {name: model.class_name for model in registered_models() for name in (*model.names, *model.also)}


def compared_names() -> list[str]:
    """Names under which models take part in comparisons: those of their variants, or their own."""
    return [name for model in registered_models() for name in model.names[1:] or model.names]


def resolve(address: str) -> Any:
    """Import what an address points to.

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
    """Find a registered estimator class by its own name or by a name in the command.

    Parameters
    ----------
    name
        Such as ``"PoissonNMF"`` or ``"poisson"``. Only registered names are imported, so a hostile model file cannot
        make partwise import code of its choice.

    Returns
    -------
    type
        The class.

    Raises
    ------
    InvalidInputError
        If no such model is registered.
    """
    for model in _candidates():
        if name == model.class_name or name in (*model.names, *model.also):
            found: type[Any] = resolve(model.address)
            return found
    raise InvalidInputError(
        f"no model called {name!r} is registered (there are {', '.join(model_names())}): name one of them. If a file"
        " names it, upgrade partwise, or install the package that brings the model."
    )


def is_registered(cls: type) -> bool:
    """Whether a model file may name this class."""
    known = (model for model in _candidates() if model.class_name == cls.__name__)
    return any(resolve(model.address) is cls for model in known)


def estimator_classes() -> list[type[Any]]:
    """All registered estimator classes, imported. Models of other packages that cannot be imported are left out."""
    found = []
    for model in registered_models():
        try:
            found.append(resolve(model.address))
        except Exception as error:
            if model in BUILT_IN:
                raise
            warnings.warn(
                f"the model {model.names[0]!r} of another package is left out, as it cannot be imported ({error}):"
                " upgrade or uninstall that package.",
                BrokenModelWarning,
                stacklevel=2,
            )
    return found
