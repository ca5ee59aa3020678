"""The exact marginal likelihood p(X), for tiny data: sum over all allocations, grouped by equal sums."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import gammaln

from partwise.allocation.model import AllocationModel
from partwise.core.data import CountMatrix
from partwise.errors import InvalidInputError

Sums = tuple[int, ...]


def exact_log_marginal(X: Any, model: AllocationModel, *, max_states: int = 200_000) -> float:
    """Log p(X) with allocations, factors and lengths integrated out, by enumeration.

    Apart from Π S_nfk!, p(S) depends on allocations only through their sums S_+fk and S_n+k. So cells are processed one
    by one, and all allocations so far with the same sums form one state. The number of states still grows fast.

    Parameters
    ----------
    X
        Counts, samples x features.
    model
        Priors.
    max_states
        Refuse data that would need more states than this at once.

    Examples
    --------
    >>> round(exact_log_marginal([[1, 0], [0, 2]], AllocationModel(2, 2)), 6)
    -5.66296
    """
    data = CountMatrix.build(X, caller="exact_log_marginal", allow_missing=False)
    counts = data.to_scipy().toarray().astype(np.int64)
    n_features, n_components = model.n_features, model.n_components
    if counts.shape[1] != n_features:
        raise InvalidInputError(f"X has {counts.shape[1]} features, and the model {n_features}: make them equal.")
    states: dict[Sums, float] = {(0,) * (n_features * n_components): 0.0}
    for row in counts:
        # While a row is being processed, its own sums are the last part of the state.
        inside = {(*sums, *(0,) * n_components): weight for sums, weight in states.items()}
        for f in np.flatnonzero(row):
            # Counted before they are listed: for large counts, there are more than fit into memory.
            if len(inside) * math.comb(int(row[f]) + n_components - 1, n_components - 1) > 50 * max_states:
                _refuse(max_states)
            splits = list(_splits(int(row[f]), n_components))
            grown: dict[Sums, float] = {}
            for (sums, weight), split in itertools.product(inside.items(), splits):
                # A split is added to the sums of its feature, and to those of the row at the end.
                changed = list(sums)
                for k, part in enumerate(split):
                    changed[f * n_components + k] += part
                    changed[n_features * n_components + k] += part
                merged = tuple(changed)
                term = weight - sum(math.lgamma(part + 1.0) for part in split)
                grown[merged] = float(np.logaddexp(grown[merged], term)) if merged in grown else term
            if len(grown) > max_states:
                _refuse(max_states)
            inside = grown
        states = {}
        for sums, weight in inside.items():
            by_sample = np.array(sums[n_features * n_components :])
            term = weight + float(gammaln(model.activation_concentration + by_sample).sum())
            kept = sums[: n_features * n_components]
            states[kept] = float(np.logaddexp(states[kept], term)) if kept in states else term
    nobody = np.empty((0, n_components))
    logs = [
        weight + model.log_sums(nobody, np.array(sums).reshape(n_features, n_components))
        for sums, weight in states.items()
    ]
    return float(np.logaddexp.reduce(logs)) + model.log_constant(counts.sum(axis=1))


def _splits(count: int, n_parts: int) -> Iterator[Sums]:
    """All ways to split a count over parts."""
    if n_parts == 1:
        yield (count,)
        return
    for first in range(count + 1):
        for rest in _splits(count - first, n_parts - 1):
            yield (first, *rest)


def _refuse(max_states: int) -> None:
    raise InvalidInputError(
        f"p(X) by enumeration needs more than {max_states} states for these data: use method='smc', or raise"
        " max_states."
    )
