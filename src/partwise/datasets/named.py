"""Every data set by name: published, bundled, or simulated."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from partwise.datasets import generators
from partwise.datasets.bundled import digits, python_topics, swimmer
from partwise.datasets.published import BINARY, COUNTS, GAP, load_binary, load_counts, load_gap
from partwise.datasets.simulate import Simulated, simulate_gamma_poisson, simulate_poisson
from partwise.errors import InvalidInputError
from partwise.io import Table


def _swimmer() -> Table:
    return Table(sp.csr_array(swimmer().counts.astype(np.int64)), source="swimmer")


_swimmer.__doc__ = swimmer.__doc__

BUNDLED: Mapping[str, Callable[[], Table]] = MappingProxyType(
    {"digits": digits, "python-topics": python_topics, "swimmer": _swimmer}
)
"""Data that come with every installation."""

SIMULATED: Mapping[str, Callable[..., Simulated]] = MappingProxyType(
    {
        "simulated-poisson": simulate_poisson,
        "simulated-gamma-poisson": simulate_gamma_poisson,
        "simulated-beta-gamma": generators.simulate_beta_gamma,
        "simulated-allocation": generators.simulate_allocation,
        "simulated-empirical-bayes": generators.simulate_empirical_bayes,
        "simulated-binary": generators.simulate_binary,
        "simulated-logistic": generators.simulate_logistic,
    }
)
"""Data simulated from each model."""


_PLURALS = {"country": "countries", "genus": "genera"}


def describe_datasets() -> dict[str, str]:
    """Names of all data sets, each with one line on what it is and where it comes from.

    Examples
    --------
    >>> from partwise.datasets import describe_datasets
    >>> describe_datasets()["digits"]
    'Handwritten digits as counts: 1797 pictures of 8 x 8 pixels, each from 0 to 16.'
    """
    made = {**BUNDLED, **SIMULATED}
    found = {name: str(function.__doc__).strip().splitlines()[0] for name, function in made.items()}
    for name, counts in COUNTS.items():
        found[name] = f"{counts.shape[0]} samples x {counts.shape[1]} features, {counts.total} tokens; {counts.origin}."
    for name, bits in BINARY.items():
        n_columns, n_rows = bits.shape
        rows, columns = (_PLURALS.get(word, f"{word}s") for word in (bits.columns, bits.rows))
        found[name] = f"{n_rows} {rows} x {n_columns} {columns}, {bits.missing} missing; {bits.origin}."
    for name, trained in GAP.items():
        found[name] = f"{trained.shape[0]} documents x {trained.shape[1]} words; {trained.origin}."
    return found


def load_dataset(name: str, **options: Any) -> Table:
    """Load any data set by name, samples x features.

    Parameters
    ----------
    name
        A name from `describe_datasets`. Published data are read from the folder that ``PARTWISE_DATA`` names.
    options
        For simulated data: sizes, seed and parameters of the generator.

    Returns
    -------
    Table
        Data with labels, if there are any.

    Examples
    --------
    >>> from partwise.datasets import load_dataset
    >>> load_dataset("digits").shape
    (1797, 64)
    >>> sizes = {"n_samples": 20, "n_features": 8, "n_components": 2}
    >>> load_dataset("simulated-allocation", random_state=0, **sizes).shape
    (20, 8)
    """
    if name in SIMULATED:
        return SIMULATED[name](**{"n_samples": 100, "n_features": 60, "n_components": 4, **options}).table
    if options:
        raise InvalidInputError(f"{name!r} is not drawn from a model and takes no {next(iter(options))!r}: drop it.")
    if name in BUNDLED:
        return BUNDLED[name]()
    if name in COUNTS:
        return load_counts(name)
    if name in BINARY:
        return load_binary(name, transpose=True)
    if name in GAP:
        return load_gap(name).counts
    raise InvalidInputError(f"there is no data set called {name!r}; there are {', '.join(describe_datasets())}.")
