"""Compare the parts of a model with references: the best match, the runner-up, and mixtures of two or three."""

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from partwise.contract import FactorizationEstimator
from partwise.contract.features import positions_of
from partwise.core.coerce import as_table
from partwise.errors import FeatureMatchWarning, InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.metrics.matching import unit_parts

# A further reference must increase the cosine by at least this much.
_GAIN = 0.01
# Number of mixtures of n references that are extended to n + 1.
_KEPT = 10
_SMALLEST_SHARE = 0.5


@dataclass(frozen=True)
class PartMatch:
    """The references most similar to one part.

    Attributes
    ----------
    part
        Name of the part.
    best, cosine
        The most similar reference, and its cosine, from 0 to 1.
    runner_up, runner_up_cosine
        The second most similar reference, and its cosine.
    mixture, mixture_cosine
        Names and shares of the references whose mixture is most similar. It has more than one only if that raises the
        cosine by 0.01 or more.
    """

    part: str
    best: str
    cosine: float
    runner_up: str
    runner_up_cosine: float
    mixture: dict[str, float]
    mixture_cosine: float


@dataclass(frozen=True)
class PartMatches:
    """One match for each part; several parts may have the same best reference."""

    matches: tuple[PartMatch, ...]

    def __iter__(self) -> Iterator[PartMatch]:
        return iter(self.matches)

    def __len__(self) -> int:
        return len(self.matches)

    def table(self) -> dict[str, list[Any]]:
        """Columns of a table with one line per part."""
        names = ("part", "best", "cosine", "runner_up", "runner_up_cosine")
        columns: dict[str, list[Any]] = {name: [getattr(one, name) for one in self.matches] for name in names}
        columns["mixture"] = [" + ".join(f"{share:.2f} {name}" for name, share in one.mixture.items()) for one in self]
        columns["mixture_cosine"] = [one.mixture_cosine for one in self]
        return columns


def match(parts: Any, reference: Any, *, most: int = 3) -> PartMatches:
    """Find the references that are most similar to the parts of a model.

    Features are matched by name if both have names. Two parts may have the same reference.

    Parameters
    ----------
    parts
        A fitted model; or a table of features x parts (`Table`, frame or array).
    reference
        The same: what the parts are compared with.
    most
        Largest number of references in a mixture, 1 to 3.

    Returns
    -------
    PartMatches
        Best, runner-up and mixture for each part.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import PoissonNMF, match
    >>> model = PoissonNMF.from_components([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    >>> found = match(model, np.eye(3))
    >>> [(one.best, one.mixture) for one in found]
    [('part 0', {'part 0': 0.5, 'part 1': 0.5}), ('part 2', {'part 2': 1.0})]
    """
    if most not in (1, 2, 3):
        raise InvalidInputError(f"most must be 1, 2 or 3, got {most!r}.")
    own, names, features = _columns(parts, "parts")
    other, references, known = _columns(reference, "reference")
    own, other = _on_shared(own, features, other, known)
    units, lengths = unit_parts(other.T).T, np.sqrt(np.square(own).sum(axis=0))
    if np.any(lengths == 0):
        raise InvalidInputError(f"the part {names[int(np.argmin(lengths))]!r} is empty on the features that both have.")
    cosines = unit_parts(own.T) @ units
    shared = units, other, references, most
    found = (_match(name, own[:, k] / lengths[k], cosines[k], *shared) for k, name in enumerate(names))
    return PartMatches(tuple(found))


def _match(
    name: str, part: Floats, cosines: Floats, units: Floats, other: Floats, references: list[str], most: int
) -> PartMatch:
    order = np.argsort(-cosines, kind="stable")
    first, second = int(order[0]), int(order[1]) if order.size > 1 else -1
    chosen: tuple[int, ...] = (first,)
    weights, reached = np.array([1.0]), float(cosines[first])
    kept: list[tuple[int, ...]] = [(int(k),) for k in order]
    for size in range(2, min(most, len(references)) + 1):
        tried = []
        for together in _larger(kept, len(references), size):
            found, left = nnls(units[:, together], part)
            # The fit is the projection of a vector of length 1.
            tried.append((float(np.sqrt(max(1.0 - left * left, 0.0))), together, found))
        tried.sort(key=lambda one: (-one[0], one[1]))
        kept = [one[1] for one in tried[:_KEPT]]
        if tried[0][0] < reached + _GAIN:
            break
        reached, chosen, weights = tried[0]
    # Shares of what the references contribute, on their own scale.
    sums = other[:, chosen].sum(axis=0) / np.sqrt(np.square(other[:, chosen]).sum(axis=0))
    shares = weights * sums / (weights * sums).sum()
    by_share = np.argsort(-shares, kind="stable")
    return PartMatch(
        part=name,
        best=references[first],
        cosine=float(cosines[first]),
        runner_up=references[second] if second >= 0 else "",
        runner_up_cosine=float(cosines[second]) if second >= 0 else 0.0,
        mixture={references[chosen[i]]: round(float(shares[i]), 6) for i in by_share if shares[i] > 0},
        mixture_cosine=reached,
    )


def _larger(kept: list[tuple[int, ...]], n_references: int, size: int) -> list[tuple[int, ...]]:
    """Sets of one size: all pairs, or the best smaller sets plus one reference."""
    if size == 2:
        return list(itertools.combinations(range(n_references), 2))
    return sorted({tuple(sorted({*one, k})) for one in kept for k in range(n_references) if k not in one})


def _columns(given: Any, argument: str) -> tuple[Floats, list[str], NDArray[Any] | None]:
    """Features x parts, names of the parts, and names of the features if there are any."""
    if isinstance(given, FactorizationEstimator):
        return given.components_.T, given.part_labels(), given.known_features
    table = as_table(given)
    matrix = np.asarray(table.matrix.toarray(), dtype=np.float64)
    if not np.all(np.isfinite(matrix)) or np.any(matrix < 0) or not matrix.size:
        raise InvalidInputError(f"{argument} must hold nonnegative numbers, features x parts, without missing cells.")
    labels = table.column_labels
    names = [f"part {k}" for k in range(matrix.shape[1])] if labels is None else [str(name) for name in labels]
    return matrix, names, table.row_labels


def _on_shared(own: Floats, features: Any, other: Floats, known: Any) -> tuple[Floats, Floats]:
    """Both restricted to their common features, by name if both have names."""
    if features is None or known is None:
        if len(own) != len(other):
            raise InvalidInputError(
                f"the parts have {len(own)} features and the references {len(other)}: name the features of"
                " both, or give the same features in the same order."
            )
        return own, other
    places = positions_of(np.asarray(known), np.asarray(features))
    shared = places >= 0
    if shared.sum() < _SMALLEST_SHARE * len(own):
        raise InvalidInputError(
            f"the references have {shared.sum()} of the {len(own)} features of the parts, too few to compare: parts"
            f" have names such as {str(features[0])!r}, references such as {str(known[0])!r}. A reference has one"
            " row for each feature."
        )
    if not shared.all():
        told = f"the references have {shared.sum()} of the {len(own)} features of the parts: cosines are over these."
        warnings.warn(told, FeatureMatchWarning, stacklevel=3)
    return own[shared], other[places[shared]]
