"""Whether chains agree: rank-normalised R-hat and effective sample sizes of quantities without labels."""

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
"""A part and its match in another chain count as the same from this cosine on."""
_TENTATIVE = "treat the parts as tentative"
_MOST_NAMED = 12


class Diagnostic(NamedTuple):
    """Diagnostics of one quantity over all draws of all chains.

    R-hat is near 1 if chains agree (Vehtari et al. 2021). The effective sample sizes give the number of independent
    draws that the bulk, and the tails, are worth.
    """

    mean: float
    r_hat: float
    ess_bulk: float
    ess_tail: float


def least_draws(n_chains: int) -> int:
    """Draws per chain that diagnostics need."""
    return 4 if n_chains > 1 else 8


def diagnose(draws: NDArray[np.float64]) -> Diagnostic:
    """Diagnostics of chains x draws; NaN for too few draws or constant values.

    The R-hat of a single chain compares its halves.
    """
    import arviz_stats.base

    statistics: Any = arviz_stats.base.array_stats  # type: ignore[attr-defined]  # made lazily

    mean = float(draws.mean()) if draws.size else float("nan")
    n_chains, n_draws = draws.shape
    if n_draws < least_draws(n_chains) or np.ptp(draws) == 0:
        return Diagnostic(mean, *(float("nan"),) * 3)
    # Chains that are stuck at different values have an infinite R-hat; rounding would make it some 1e16.
    stuck = not np.ptp(draws, axis=1).any()
    compared = draws if n_chains > 1 else draws[:, n_draws % 2 :].reshape(2, -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (
            np.inf if stuck else statistics.rhat(compared, chain_axis=0, draw_axis=1, method="rank"),
            statistics.ess(draws, chain_axis=0, draw_axis=1, method="bulk"),
            statistics.ess(draws, chain_axis=0, draw_axis=1, method="tail", prob=(0.05, 0.95)),
        )
    return Diagnostic(mean, *(float(np.asarray(value)) for value in found))


def agreement(draws: KeptDraws) -> dict[str, float]:
    """The largest R-hat and the smallest effective sample size of a run; empty for too few draws."""
    if draws.n_kept < least_draws(draws.n_chains):
        return {}
    found = [diagnose(values) for name, values in draws.of_chains().items() if name not in draws.discrete]
    # A constant quantity has no R-hat, and is no evidence against the chains.
    r_hats = [own.r_hat for own in found if not np.isnan(own.r_hat)]
    sizes = [own.ess_bulk for own in found if not np.isnan(own.r_hat)]
    return {"r_hat": max(r_hats, default=1.0), "ess": min(sizes, default=float(draws.n_kept * draws.n_chains))}


def part_agreement(dictionaries: Sequence[NDArray[np.float64]], chosen: int) -> NDArray[np.float64]:
    """How well the other chains found each part of one chain: the smallest cosine with its match in any of them.

    Parts are matched one to one. For a single chain, the result is NaN.

    Parameters
    ----------
    dictionaries
        Features x parts of each chain.
    chosen
        The chain whose parts are examined.

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
    """Names joined for a sentence; if there are many, only the first.

    Examples
    --------
    >>> listed(["3"]), listed(["3", "7", "12"])
    ('3', '3, 7 and 12')
    """
    named = [*names[:_MOST_NAMED], *([f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else [])]
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def naming_parts(message: str, tentative: Sequence[int], n_compared: int) -> str:
    """The message of a status, with the parts that not all chains found.

    Parameters
    ----------
    message
        The message of `ChainsAgree`, whether chains agree or not.
    tentative
        Numbers of these parts.
    n_compared
        Number of parts that were compared.
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
    """Converged when a sampler reports a small enough R-hat and a large enough effective sample size."""

    r_hat: float = 1.05
    ess: float = 100.0
    remedy: str = "raise burn_in and n_draws"

    def check(self, trace: Trace) -> str | None:
        """Why the chains have converged; None if they have not."""
        latest = trace.latest("r_hat")
        if not latest or latest[0][0] != len(trace):
            return None
        r_hat, ess, told = self._latest(trace)
        return f"the chains agree ({told})" if r_hat <= self.r_hat and ess >= self.ess else None

    def advice(self, trace: Trace, max_iter: int, onward: str) -> str:
        """What to do about chains that disagree."""
        if not trace.latest("r_hat"):
            return "raise n_draws, as it takes four draws (of a single chain eight) to tell whether chains agree"
        r_hat, _, told = self._latest(trace)
        found = "the chains disagree" if r_hat > self.r_hat else "there are few independent draws"
        wanted = f"{told}; needed: at most {self.r_hat:g} and at least {self.ess:g}"
        return f"{found} ({wanted}), so {_TENTATIVE}: {self.remedy}"

    def _latest(self, trace: Trace) -> tuple[float, float, str]:
        """R-hat, effective sample size, and both in words."""
        r_hat, ess = trace.latest("r_hat")[0][1], trace.latest("ess")[0][1]
        return r_hat, ess, f"R-hat {r_hat:.3f}, effective sample size {ess:.0f}"


def check_chains(chains: dict[str, NDArray[np.float64]]) -> None:
    """Raise ``ValueError`` unless all quantities are numbers, chains x draws, of equal shape."""
    shapes = {values.shape for values in chains.values()}
    if len(shapes) > 1 or any(values.ndim != 2 or values.dtype.kind not in "iuf" for values in chains.values()):
        raise ValueError("its draws are not numbers of chains x draws")
