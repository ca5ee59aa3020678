"""The models that take part in a comparison, the simplest first, with the settings they are fitted with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from partwise._registry import ESTIMATORS, find_estimator
from partwise.errors import InvalidInputError


@dataclass(frozen=True)
class Candidate:
    """A model of a comparison.

    Attributes
    ----------
    name
        What it is called in tables, in files and on the command line.
    estimator
        Class, by its public name.
    settings
        Parameters other than the number of parts, the seed and the number of threads.
    effort
        Parameters that say how long it is fitted in a comparison, which needs less than a model that is kept.
    smallest
        Smallest number of parts that the model makes sense with.
    estimated
        Parameter that a comparison sets to the shape of the activations' gamma distribution, which it estimates from
        the training data; empty if there is none.

    Examples
    --------
    >>> candidate = Candidate("poisson", "PoissonNMF", effort={"tol": 1e-5})
    >>> candidate.build(3, seed=1).tol, candidate.build(3, seed=1, briefly=False).tol
    (1e-05, 1e-06)
    """

    name: str
    estimator: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    effort: Mapping[str, Any] = field(default_factory=dict)
    smallest: int = 1
    estimated: str = ""

    @property
    def signed(self) -> bool:
        """Whether its components have signs: they are directions in which samples differ, and no parts."""
        return self.estimator == "LogisticPCA"

    def build(self, rank: int, seed: int, *, briefly: bool = True, **more: Any) -> Any:
        """The unfitted estimator.

        Parameters
        ----------
        rank
            Number of parts.
        seed
            Of all its random numbers.
        briefly
            Whether to fit it with the effort of a comparison, or as it is fitted by default.
        more
            Further parameters, which override the settings.
        """
        effort = self.effort if briefly else {}
        parameters = {**self.settings, **effort, **more}
        return find_estimator(self.estimator)(n_components=rank, random_state=seed, **parameters)


# Gibbs samplers keep fewer draws than by default: a comparison needs means, not tails.
_SAMPLED = {"burn_in": 100, "n_draws": 50}

# Gamma-Poisson keeps its shape of 1, at which it empties parts that are not needed; smaller ones do not.
COUNT_MODELS: tuple[Candidate, ...] = (
    Candidate("poisson", "PoissonNMF", effort={"tol": 1e-5}),
    Candidate("gamma-poisson", "GammaPoissonNMF", effort={"tol": 1e-4, "n_starts": 3, "max_iter": 300}),
    Candidate("beta-gamma-pfa", "BetaGammaPFA", effort={"burn_in": 200, "n_draws": 200}, estimated="shape"),
    Candidate("allocation", "AllocationNMF", effort=_SAMPLED, estimated="activation_concentration"),
    Candidate("empirical-bayes-poisson", "EmpiricalBayesPoissonNMF", effort={"tol": 1e-5, "max_iter": 300}),
)
"""Models of counts, the simplest first."""

# One chain: restarts show what others would find.
_BITS = {**_SAMPLED, "thin": 2, "n_chains": 1}

BINARY_MODELS: tuple[Candidate, ...] = (
    Candidate("beta-dir", "BinaryNMF", {"model": "beta-dir", "init": "vb"}, _BITS),
    Candidate("dir-beta", "BinaryNMF", {"model": "dir-beta", "init": "vb"}, _BITS),
    Candidate("dir-dir", "BinaryNMF", {"model": "dir-dir", "init": "vb"}, _BITS, smallest=2),
    Candidate("logistic-pca", "LogisticPCA", effort={"tol": 1e-5}),
    Candidate("poisson", "PoissonNMF", effort={"tol": 1e-5}),
)
"""Models of bits: the three with priors first, then the two baselines."""

_OF_KIND: Mapping[str, tuple[Candidate, ...]] = MappingProxyType({"counts": COUNT_MODELS, "bits": BINARY_MODELS})
# Set by the comparison itself, or without meaning in it.
_NOT_SETTINGS = {"n_components", "random_state", "n_jobs", "engine", "progress", "callbacks", "checkpoint", "resume"}


def model_names(kind: str) -> list[str]:
    """Names of the models that are compared by default.

    Parameters
    ----------
    kind
        ``"counts"`` or ``"bits"``.

    Examples
    --------
    >>> model_names("bits")
    ['beta-dir', 'dir-beta', 'dir-dir', 'logistic-pca', 'poisson']
    """
    return [candidate.name for candidate in _OF_KIND[kind]]


def chosen_candidates(models: Any, kind: str, *, missing: bool = False) -> tuple[Candidate, ...]:
    """The candidates that ``models`` stands for: names, estimators, or a mapping of names and estimators; None = all.

    Parameters
    ----------
    models
        As `partwise.selection.compare` takes it.
    kind
        ``"counts"`` or ``"bits"``.
    missing
        Whether cells are missing, which the allocation model then draws with everything else.
    """
    if missing:
        return tuple(_imputing(candidate) for candidate in chosen_candidates(models, kind))
    known = {candidate.name: candidate for candidate in _OF_KIND[kind]}
    if models is None:
        return tuple(known.values())
    if isinstance(models, Mapping):
        for name in map(str, models):
            if not name.isprintable() or "/" in name or "\\" in name:
                raise InvalidInputError(f"models: {name!r} cannot be a part of a file's name: give it another name.")
        found = [_of_estimator(str(name), model) for name, model in models.items()]
    else:
        listed: Iterable[Any] = [models] if isinstance(models, str) or hasattr(models, "get_params") else models
        found = [_named(model, known, kind) if isinstance(model, str) else _of_estimator("", model) for model in listed]
    names = [candidate.name for candidate in found]
    if not names:
        raise InvalidInputError(f"models is empty: name some of {', '.join(known)}, or leave it out.")
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise InvalidInputError(f"models has {repeated[0]!r} twice: pass a mapping with a name of its own for each.")
    return tuple(found)


def _imputing(candidate: Candidate) -> Candidate:
    if candidate.estimator != "AllocationNMF":
        return candidate
    return replace(candidate, settings={**candidate.settings, "missing": "impute"})


def _named(name: str, known: Mapping[str, Candidate], kind: str) -> Candidate:
    if name not in known:
        raise InvalidInputError(f"there is no model of {kind} called {name!r}: models are {', '.join(known)}.")
    return known[name]


def _of_estimator(name: str, model: Any) -> Candidate:
    own = type(model).__name__
    if own not in ESTIMATORS or not hasattr(model, "get_params"):
        raise InvalidInputError(f"models must be names or unfitted estimators of partwise, got {own}.")
    parameters = model.get_params(deep=False)
    settings = {key: value for key, value in parameters.items() if key not in _NOT_SETTINGS}
    smallest = 2 if settings.get("model") == "dir-dir" else 1
    return Candidate(name or own, own, settings, smallest=smallest)
