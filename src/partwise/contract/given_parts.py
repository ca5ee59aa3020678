"""Build models from given parts instead of fitting them; `transform` then refits activations to these parts.

Prior knowledge about parts: seeds, which act as extra tokens seen before the data, and fixed parts.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from partwise.contract.features import checked_names, positions_of
from partwise.contract.offers import Offers
from partwise.core.coerce import as_table
from partwise.core.data import CountMatrix, SparseData
from partwise.core.result import Status, Trace
from partwise.errors import InvalidInputError
from partwise.io.pairs import read_pairs
from partwise.kernels.arrays import Floats, Places

Seeds = Mapping[str, Sequence[str | int]]


def read_seeds(seeds: Any) -> Seeds:
    """Seeds as a mapping from part names to features; from a file, its columns ``part`` and ``feature``.

    Parameters
    ----------
    seeds
        A mapping, or the name of a .csv or .tsv file.
    """
    if isinstance(seeds, Mapping):
        return {str(part): [words] if isinstance(words, str | int) else list(words) for part, words in seeds.items()}
    if not isinstance(seeds, str | os.PathLike):
        raise InvalidInputError(f"seeds is a {type(seeds).__name__}: give a mapping of parts to features, or a file.")
    found: dict[str, list[str | int]] = {}
    for part, feature in read_pairs(seeds, "part", "feature"):
        found.setdefault(part, []).append(feature)
    return found


def seed_counts(seeds: Seeds, weight: float, n_components: int, data: SparseData) -> Floats:
    """Features x parts: the whole number of tokens that the seeds of each part stand for. Seeded parts come first.

    Parameters
    ----------
    seeds
        Features of each part, by name or position.
    weight
        Tokens that the seeds of a part stand for, as a share of the tokens of an average part.
    n_components
        Number of parts.
    data
        The training data, whose column labels are the names.
    """
    if len(seeds) > n_components:
        raise InvalidInputError(f"seeds names {len(seeds)} parts, but n_components is {n_components}: raise it.")
    labels = data.column_labels
    places = {} if labels is None else {str(name): f for f, name in enumerate(labels)}
    counts = np.zeros((data.shape[1], n_components))
    for k, (part, features) in enumerate(seeds.items()):
        if not features:
            raise InvalidInputError(f"seeds has no features for the part {part!r}: give at least one.")
        for feature in features:
            f = feature if isinstance(feature, int) else places.get(feature)
            if f is None or not 0 <= f < data.shape[1]:
                numbers = f"use column numbers from 0 to {data.shape[1] - 1}, because the data have no feature names"
                remedy = numbers if labels is None else "correct or remove it"
                raise InvalidInputError(f"seeds: {feature!r} of part {part!r} is not a feature of the data: {remedy}.")
            counts[f, k] += 1.0
        counts[:, k] *= max(1.0, np.rint(weight * data.total / n_components / len(features)))
    return counts


def fixed_shares(fixed_parts: Any, most: int, data: SparseData) -> Floats:
    """Shares of the features in fixed parts, features x parts.

    Parameters
    ----------
    fixed_parts
        Parts x features: an array, a table or a frame. If the data have feature names, features are matched by name.
    most
        Largest number of parts that may be fixed.
    data
        The training data.
    """
    given, names = fixed_parts, None
    if not isinstance(given, np.ndarray | list | tuple):
        table = as_table(given)
        given, names = table.matrix, table.column_labels
    given = np.asarray(given.toarray() if hasattr(given, "toarray") else given, dtype=np.float64)
    n_features = data.shape[1]
    if names is not None and data.column_labels is not None and given.ndim == 2:
        places = positions_of(np.asarray(names), data.column_labels)
        if np.all(places < 0):
            raise InvalidInputError("no feature of fixed_parts has the name of a feature of the data: compare names.")
        given = np.where(places >= 0, given[:, places], 0.0)
    if given.ndim != 2 or given.shape[1] != n_features or len(given) > most:
        raise InvalidInputError(
            f"fixed_parts has shape {given.shape}: give up to {most} parts x {n_features} features."
        )
    totals = given.sum(axis=1)
    if not np.all(np.isfinite(given)) or np.any(given < 0) or np.any(totals <= 0):
        raise InvalidInputError("fixed_parts must be nonnegative, with something in every part: correct it.")
    return np.ascontiguousarray((given / totals[:, None]).T)


def seeded_order(seeds: Floats, dictionary: Floats) -> Places:
    """Order the parts that a fit starts from, so that each seeded part gets the one that holds its seeds.

    Parameters
    ----------
    seeds
        Features x parts, from `seed_counts`.
    dictionary
        Features x parts.
    """
    shares = dictionary / np.maximum(dictionary.sum(axis=0), 1e-300)
    wanted = seeds / np.maximum(seeds.sum(axis=0), 1e-300)
    from scipy.optimize import linear_sum_assignment

    return np.asarray(linear_sum_assignment(wanted.T @ shares, maximize=True)[1])


def given_names(seeds: Any, fixed_parts: Any) -> dict[int | str, str]:
    """Names of the first parts of a model, by position: from the seeds, or from the rows of the fixed parts.

    Parameters
    ----------
    seeds, fixed_parts
        Parameters of an estimator.
    """
    named = fixed_parts is not None and not isinstance(fixed_parts, np.ndarray | list | tuple)
    names = read_seeds(seeds) if seeds is not None else as_table(fixed_parts).row_labels if named else None
    return {k: str(name) for k, name in enumerate(() if names is None else names)}


class FromGivenParts(Offers):
    """Builds a model from given parts."""

    _store_components: Callable[[Floats, Floats], None]

    @classmethod
    def from_components(
        cls,
        components: Any,
        *,
        feature_names: Any = None,
        component_names: Any = None,
        presence: Any = None,
        allowed: Any = None,
        forbidden: Any = (),
        always: Any = (),
        **parameters: Any,
    ) -> Self:
        """Build a fitted estimator from given parts; `transform` refits activations to them.

        Parameters
        ----------
        components
            Parts x features, nonnegative. Their scale is kept.
        feature_names
            Names of the features. They are checked against the data, if these have names.
        component_names
            Names of the parts, for `get_feature_names_out` and the command's tables.
        presence
            Find which parts are present in each sample. `transform` then returns posterior means in which parts may be
            absent, and `presence` gives probabilities and credible intervals. True: expect five parts per sample (half
            of the parts, if there are fewer than ten). Or pass a prior probability of presence, or one per part.
        allowed, forbidden, always
            Names or positions of parts, with ``presence``: the only ones that may be present, those that may not, and
            those that are present in every sample.
        parameters
            Parameters of the estimator.
        """
        if not cls.declares.given_parts:
            raise InvalidInputError(f"{cls.__name__} cannot take given parts: use PoissonNMF or GammaPoissonNMF.")
        given = CountMatrix.build(components, integers=False, allow_missing=False, caller="from_components")
        n_components, n_features = given.shape
        model = cls(n_components, **parameters)  # type: ignore[call-arg]  # every estimator is a dataclass that begins with it
        model.n_features_in_ = n_features
        for attribute, names in checked_names(feature_names, n_features, component_names, n_components).items():
            setattr(model, attribute, names)
        model.n_iter_, model.trace_, model.n_samples_seen_ = 0, Trace(), 0
        model.status_ = Status("converged", "The parts were given; there is nothing to fit.")
        model._take_components(np.ascontiguousarray(given.to_scipy().toarray().T, dtype=np.float64))
        rules = {"allowed": allowed, "forbidden": forbidden, "always": always}
        if presence is not None and presence is not False:
            from partwise.presence import PresencePrior

            model.presence_prior_ = PresencePrior.of(presence, model.part_labels(), **rules).probability
        elif allowed is not None or len(forbidden) or len(always):
            raise InvalidInputError("allowed, forbidden and always are for presence: pass presence=True.")
        return model

    def _take_components(self, dictionary: Floats) -> None:
        """Store given parts (features x parts) as if a fit had found them (`declares.given_parts`)."""
        self._store_components(dictionary, dictionary.sum(axis=0))
