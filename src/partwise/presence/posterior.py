"""Presence probabilities and credible intervals of the activations of each sample, for a given dictionary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.core.data import SparseData
from partwise.core.keys import Key
from partwise.engines.base import Engine
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.presence.rows import RowSampler

# Expected number of parts per sample, by default.
_USUAL_NUMBER = 5.0
# Below this correlation of the activations of two parts, one can stand for the other.
_EXCHANGED = -0.8


@dataclass(frozen=True, eq=False)
class PresencePosterior:
    """Which parts are present in each sample, and how much of each.

    Attributes
    ----------
    probability
        Samples x parts: posterior probability that the part is present.
    mean, std
        Samples x parts: posterior mean and standard deviation of the activations, where absence counts as 0.
    lower, upper
        Bounds of the credible intervals of the activations. For a part that may be absent, the lower bound is 0.
    level
        Probability of the credible intervals.
    cosine
        Cosine between each sample and its reconstruction from the posterior means.
    residual
        Share of each sample's counts that would have to move to another feature to match its reconstruction.
    disagreement
        Largest difference between the presence probabilities of two chains of a sample. Above 0.3, run longer
        (``n_draws=``).
    noise_size
        r of each sample, if its counts vary more than Poisson noise explains: their variance is mean + mean² / r, and
        the intervals are wider for it. Infinite if they do not.
    confused
        Pairs of parts that the data cannot tell apart, and in how many samples: draws give to one what they take from
        the other.
    part_names
        Names of the parts.
    """

    probability: Floats
    mean: Floats
    std: Floats
    lower: Floats
    upper: Floats
    level: float
    cosine: Floats
    residual: Floats
    disagreement: Floats
    noise_size: Floats
    confused: dict[tuple[str, str], int]
    part_names: list[str]

    def table(self, samples: Sequence[str]) -> dict[str, Any]:
        """Columns of a table with one line per sample and part with a presence probability of at least 0.05."""
        rows, parts = np.nonzero(self.probability >= 0.05)
        return {
            "sample": [str(samples[int(n)]) for n in rows],
            "part": [self.part_names[k] for k in parts],
            "presence": self.probability[rows, parts],
            "activation": self.mean[rows, parts],
            "lower": self.lower[rows, parts],
            "upper": self.upper[rows, parts],
        }


@dataclass(frozen=True)
class PresencePrior:
    """Prior probability that each part is present: 0 forbids it, 1 says that it is always present."""

    probability: Floats

    @classmethod
    def of(
        cls, presence: Any, names: Sequence[str], *, allowed: Any = None, forbidden: Any = (), always: Any = ()
    ) -> PresencePrior:
        """Build the prior from arguments.

        Parameters
        ----------
        presence
            True: expect five parts (half of the parts, if there are fewer than ten). A probability for all parts, or
            one per part.
        names
            Names of the parts.
        allowed, forbidden, always
            Names or positions of parts: the only ones that may be present, those that may not, those that always are.
        """
        size = len(names)
        usual = min(0.5, _USUAL_NUMBER / size)
        try:
            given = np.asarray(usual if presence is True else presence, dtype=np.float64)
            probability = np.broadcast_to(given, (size,)).copy()
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"presence must be True, a probability or one for each of {size} parts, got {presence!r}."
            ) from None
        if not np.all((probability >= 0) & (probability <= 1)):
            raise InvalidInputError("presence must hold probabilities: give numbers from 0 to 1.")
        if allowed is not None:
            kept = np.zeros(size, dtype=bool)
            kept[_places(allowed, names, "allowed")] = True
            probability[~kept] = 0.0
        probability[_places(forbidden, names, "forbidden")] = 0.0
        probability[_places(always, names, "always")] = 1.0
        if not np.any(probability):
            raise InvalidInputError("presence forbids every part: allow at least one.")
        return cls(probability)


def _places(chosen: Any, names: Sequence[str], argument: str) -> list[int]:
    """Positions of parts that were named, or given by position."""
    found = []
    for one in [chosen] if isinstance(chosen, str) else chosen:
        if isinstance(one, str) and one in names:
            found.append(list(names).index(one))
        elif not isinstance(one, str) and 0 <= int(one) < len(names):
            found.append(int(one))
        else:
            raise InvalidInputError(f"there is no part {one!r} ({argument}): the parts are {', '.join(names)}.")
    return found


def presence_posterior(
    key: Key,
    data: SparseData,
    dictionary: Floats,
    prior: PresencePrior,
    engine: Engine,
    part_names: Sequence[str],
    *,
    n_draws: int = 1000,
    level: float = 0.95,
    thin: int = 4,
    n_particles: int = 12,
    noise: str = "estimate",
) -> PresencePosterior:
    """Sample which parts are present in each row, and their activations.

    Parts are present independently with their prior probabilities. Given which parts are present, their shares of the
    counts are uniform on the simplex, and the expected total is free. Rows do not depend on each other.

    Parameters
    ----------
    key
        Key of the random streams; each row has its own.
    data
        Checked counts.
    dictionary
        Features x parts, nonnegative.
    prior
        Probabilities of presence.
    engine
        Engine whose threads share the rows.
    part_names
        Names of the parts.
    n_draws
        Number of draws of the activations kept per row, from two chains together.
    level
        Probability of the credible intervals.
    thin
        Steps of a chain between kept draws.
    n_particles
        Number of points for estimating the marginal likelihood of a set of parts.
    noise
        ``"estimate"``: for each sample, whether and how much its counts vary beyond Poisson noise. ``"poisson"``:
        assume that they do not.
    """
    if n_draws < 20 or not 0 < level < 1:
        raise InvalidInputError(f"n_draws must be at least 20 and level between 0 and 1, got {n_draws} and {level}.")
    if noise not in ("estimate", "poisson"):
        raise InvalidInputError(f"noise must be 'estimate' or 'poisson', got {noise!r}.")
    shape = data.shape[0], dictionary.shape[1]
    found = {name: np.zeros(shape) for name in ("probability", "mean", "std", "lower", "upper")}
    unlike, cosine, residual, size = (np.zeros(shape[0]) for _ in range(4))
    swapped: list[list[tuple[int, int]]] = [[] for _ in range(shape[0])]
    settings = prior.probability, n_draws, thin, n_particles, noise
    sampler = RowSampler(key.for_stage("presence"), data, dictionary, *settings)

    def work(n: int) -> None:
        probability, draws, unlike[n], size[n] = sampler.row(n)
        found["probability"][n] = probability
        found["mean"][n], found["std"][n] = draws.mean(axis=0), draws.std(axis=0)
        found["lower"][n], found["upper"][n] = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
        cosine[n], residual[n] = _fit_of(data.rows(n, n + 1), dictionary @ found["mean"][n])
        swapped[n] = _in_exchange(draws)

    engine.here.for_each(work, list(range(shape[0])))
    names = [str(name) for name in part_names]
    pairs = Counter(pair for of_row in swapped for pair in of_row)
    confused = {(names[j], names[k]): count for (j, k), count in pairs.most_common()}
    about = {"cosine": cosine, "residual": residual, "disagreement": unlike, "noise_size": size}
    return PresencePosterior(**found, **about, level=level, confused=confused, part_names=names)


def _in_exchange(draws: Floats) -> list[tuple[int, int]]:
    """Pairs of parts of which each draw has one or the other, or an arbitrary mixture of both."""
    spread, mean = draws.std(axis=0), draws.mean(axis=0)
    moving = np.flatnonzero(spread > 0.05 * mean.sum())
    if moving.size < 2:
        return []
    against = np.corrcoef(draws[:, moving].T) < _EXCHANGED
    pairs = ((int(moving[j]), int(moving[k])) for j, k in np.argwhere(np.triu(against)))
    return [(j, k) for j, k in pairs if min(spread[j], spread[k]) > 0.2 * (mean[j] + mean[k])]


def _fit_of(row: SparseData, expected: Floats) -> tuple[float, float]:
    """Cosine of a row with its expected values, and half of the sum of absolute differences, as a share."""
    observed = np.zeros(expected.size)
    observed[row.indices] = row.values
    expected = expected.copy()
    expected[row.missing_indices] = 0.0
    lengths = float(np.sqrt(np.square(observed).sum() * np.square(expected).sum()))
    differences = float(np.abs(observed - expected).sum())
    return float(observed @ expected) / max(lengths, 1e-300), differences / 2.0 / max(float(observed.sum()), 1e-300)
