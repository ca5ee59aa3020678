"""Whether chains agree: rank-normalised R-hat and effective sample sizes of numbers that have no labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.core.result import Trace
from partwise.core.stopping import Rule
from partwise.metrics.matching import match_parts
from partwise.sampling.draws import KeptDraws

SAME_PART = 0.8
"""Cosine from which a part of one chain and its match in another count as the same part."""
_TENTATIVE = "treat the parts as tentative"
_MOST_NAMED = 12


class Diagnostic(NamedTuple):
    """Of one quantity over all draws of all chains.

    R-hat is near 1 where chains agree (Vehtari et al. 2021); the effective sample sizes say how many independent draws
    the bulk, and the tails, are worth.
    """

    mean: float
    r_hat: float
    ess_bulk: float
    ess_tail: float


def diagnose(draws: NDArray[np.float64]) -> Diagnostic:
    """Diagnostics of chains x draws; NaN where there are fewer than four draws or they do not vary."""
    import arviz_stats.base

    statistics: Any = arviz_stats.base.array_stats  # type: ignore[attr-defined]  # made lazily

    mean = float(draws.mean()) if draws.size else float("nan")
    if draws.shape[1] < 4 or np.ptp(draws) == 0:
        return Diagnostic(mean, *(float("nan"),) * 3)
    # Chains that stand still at different values have an infinite R-hat.
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (
            statistics.rhat(draws, chain_axis=0, draw_axis=1, method="rank"),
            statistics.ess(draws, chain_axis=0, draw_axis=1, method="bulk"),
            statistics.ess(draws, chain_axis=0, draw_axis=1, method="tail", prob=(0.05, 0.95)),
        )
    return Diagnostic(mean, *(float(np.asarray(value)) for value in found))


def agreement(draws: KeptDraws) -> dict[str, float]:
    """The largest R-hat and the smallest effective sample size of the numbers of a run; nothing of too few draws."""
    if draws.n_kept < 4:
        return {}
    found = [diagnose(values) for name, values in draws.of_chains().items() if name not in draws.discrete]
    # What does not vary has no R-hat, and says nothing against the chains.
    r_hats = [own.r_hat for own in found if not np.isnan(own.r_hat)]
    sizes = [own.ess_bulk for own in found if not np.isnan(own.r_hat)]
    return {"r_hat": max(r_hats, default=1.0), "ess": min(sizes, default=float(draws.n_kept * draws.n_chains))}


def part_agreement(dictionaries: Sequence[NDArray[np.float64]], chosen: int) -> NDArray[np.float64]:
    """How far the other chains found each part of the chosen one: the smallest cosine with its match in any of them.

    Parts are matched one to one. Of a single chain nothing is known: NaN.

    Parameters
    ----------
    dictionaries
        Features x parts of each chain.
    chosen
        The chain whose parts are meant.

    Examples
    --------
    >>> import numpy as np
    >>> part_agreement([np.eye(3), np.array([[0.0, 1, 0], [1, 0, 0], [1, 0, 0]])], 0).round(2).tolist()
    [1.0, 0.71, 0.0]
    """
    own = dictionaries[chosen].T
    found = np.full(len(own), np.nan)
    for chain, other in enumerate(dictionaries):
        if chain != chosen:
            first, _, cosines = match_parts(own, other.T)
            found[first] = np.fmin(found[first], cosines)
    return found


def listed(names: Sequence[str]) -> str:
    """Names in a sentence; of many, the first.

    Examples
    --------
    >>> listed(["3"]), listed(["3", "7", "12"])
    ('3', '3, 7 and 12')
    """
    named = [*names[:_MOST_NAMED], *([f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else [])]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def naming_parts(message: str, tentative: Sequence[int], n_compared: int) -> str:
    """The message of a status of chains, which then names the parts that chains do not share.

    Parameters
    ----------
    message
        As `ChainsAgree` wrote it, whether chains agree or not.
    tentative
        Numbers of these parts.
    n_compared
        Parts that were compared.
    """
    if not n_compared:
        return message
    if tentative:
        named = f"part{'' if len(tentative) == 1 else 's'} {listed([str(k) for k in tentative])}"
        told = f"treat {'all parts' if len(tentative) == n_compared > 1 else named} as tentative"
        if _TENTATIVE in message:
            return message.replace(_TENTATIVE, told)
        return f"{message} But not every chain found the same parts: {told}."
    return message.replace(f"so {_TENTATIVE}", f"but found the same parts (cosines of {SAME_PART:g} or more)")


@dataclass(frozen=True)
class ChainsAgree(Rule):
    """Converged when a sampler has reported an R-hat that is small enough and an effective sample size large enough."""

    r_hat: float = 1.05
    ess: float = 100.0
    remedy: str = "raise burn_in and n_draws"

    def check(self, trace: Trace) -> str | None:
        """Why the chains have converged, None if they have not."""
        latest = trace.latest("r_hat")
        if not latest or latest[0][0] != len(trace) or not self._enough(*self._latest(trace)):
            return None
        return f"the chains agree ({self._told(trace)})"

    def advice(self, trace: Trace, max_iter: int, onward: str) -> str:
        """What to do about chains that disagree."""
        if not trace.latest("r_hat"):
            return "raise n_draws, as four draws at least are needed to tell whether chains agree"
        r_hat, _ = self._latest(trace)
        found = "the chains disagree" if r_hat > self.r_hat else "there are few independent draws"
        wanted = f"{self._told(trace)}; needed: at most {self.r_hat:g} and at least {self.ess:g}"
        return f"{found} ({wanted}), so {_TENTATIVE}: {self.remedy}"

    def _latest(self, trace: Trace) -> tuple[float, float]:
        return trace.latest("r_hat")[0][1], trace.latest("ess")[0][1]

    def _enough(self, r_hat: float, ess: float) -> bool:
        return r_hat <= self.r_hat and ess >= self.ess

    def _told(self, trace: Trace) -> str:
        r_hat, ess = self._latest(trace)
        return f"R-hat {r_hat:.3f}, effective sample size {ess:.0f}"


def check_chains(chains: dict[str, NDArray[np.float64]]) -> None:
    """Raise ``ValueError`` unless all quantities are numbers, chains x draws, equally many of each."""
    shapes = {values.shape for values in chains.values()}
    if len(shapes) > 1 or any(values.ndim != 2 or values.dtype.kind not in "iuf" for values in chains.values()):
        raise ValueError("its draws are not numbers of chains x draws")
