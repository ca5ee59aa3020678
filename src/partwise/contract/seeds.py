"""What is known about parts beforehand: seeds, as tokens that were seen before the data, and parts that are fixed."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from partwise.contract.features import positions_of
from partwise.core.coerce import as_table
from partwise.core.data import SparseData
from partwise.errors import InvalidInputError
from partwise.io.source import bad_file, bytes_allowed, check_regular, text_lines
from partwise.kernels.arrays import Floats

Seeds = Mapping[str, Sequence[str | int]]


def read_seeds(seeds: Any) -> Seeds:
    """Seeds as a mapping from names of parts to features; of a file, its columns ``part`` and ``feature``.

    Parameters
    ----------
    seeds
        A mapping, or the name of a .csv or .tsv file.
    """
    if isinstance(seeds, Mapping):
        return {str(part): [words] if isinstance(words, str | int) else list(words) for part, words in seeds.items()}
    if not isinstance(seeds, str | os.PathLike):
        raise InvalidInputError(f"seeds is a {type(seeds).__name__}: give a mapping of parts to features, or a file.")
    path = Path(seeds).expanduser()
    check_regular(path)
    delimiter = "\t" if path.name.lower().endswith(".tsv") else ","
    found: dict[str, list[str | int]] = {}
    for row in csv.DictReader(text_lines(path, bytes_allowed()), delimiter=delimiter):
        if not row.get("part") or not row.get("feature"):
            raise bad_file(path, "a line lacks a part or a feature", "name the columns part and feature, and fill them")
        found.setdefault(row["part"], []).append(row["feature"])
    return found


def seed_counts(seeds: Seeds, weight: float, n_components: int, data: SparseData) -> Floats:
    """Features x components: tokens that the seeds of each part stand for, in whole numbers; seeded parts come first.

    Parameters
    ----------
    seeds
        Features of parts, by name or position.
    weight
        Tokens of the seeds of a part, as a share of the tokens of an average part.
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
                why = "the data have no names" if labels is None else "the data do not have it"
                raise InvalidInputError(
                    f"the seed {feature!r} of the part {part!r} is no feature: {why}; correct seeds."
                )
            counts[f, k] += 1.0
        each = weight * data.total / n_components / len(features)
        counts[:, k] *= max(1.0, np.rint(each))
    return counts


def fixed_shares(fixed_parts: Any, most: int, data: SparseData) -> Floats:
    """Shares of the features in parts that are fixed, features x parts.

    Parameters
    ----------
    fixed_parts
        Parts x features: an array, or a table or frame, whose features are matched by name where the data have names.
    most
        Number of parts that may be fixed.
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
            f"fixed_parts has shape {given.shape}: give at most {most} parts x {n_features} features."
        )
    totals = given.sum(axis=1)
    if not np.all(np.isfinite(given)) or np.any(given < 0) or np.any(totals <= 0):
        raise InvalidInputError("fixed_parts must be nonnegative, with something in every part: correct it.")
    return np.ascontiguousarray((given / totals[:, None]).T)


def seeded_order(seeds: Floats, dictionary: Floats) -> NDArray[np.intp]:
    """Positions of the parts that a fit starts from, such that each seeded part gets the one that holds its seeds.

    Parameters
    ----------
    seeds
        Features x components, as of `seed_counts`.
    dictionary
        Features x components.
    """
    shares = dictionary / np.maximum(dictionary.sum(axis=0), 1e-300)
    wanted = seeds / np.maximum(seeds.sum(axis=0), 1e-300)
    return np.asarray(linear_sum_assignment(wanted.T @ shares, maximize=True)[1])


def seeded_names(seeds: Seeds, n_components: int) -> NDArray[Any]:
    """Names of all parts: those of the seeds, then ``part k``."""
    names = [*seeds, *(f"part {k}" for k in range(len(seeds), n_components))]
    return np.array(names, dtype=object)
