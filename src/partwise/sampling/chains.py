"""Whether chains agree: rank-normalised R-hat and effective sample sizes of numbers that have no labels."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.sampling.draws import KeptDraws


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
    found = (
        statistics.rhat(draws, chain_axis=0, draw_axis=1, method="rank"),
        statistics.ess(draws, chain_axis=0, draw_axis=1, method="bulk"),
        statistics.ess(draws, chain_axis=0, draw_axis=1, method="tail", prob=(0.05, 0.95)),
    )
    return Diagnostic(mean, *(float(np.asarray(value)) for value in found))


def check_chains(chains: dict[str, NDArray[np.float64]]) -> None:
    """Raise ``ValueError`` unless all quantities are numbers, chains x draws, equally many of each."""
    shapes = {values.shape for values in chains.values()}
    if len(shapes) > 1 or any(values.ndim != 2 or values.dtype.kind not in "iuf" for values in chains.values()):
        raise ValueError("its draws are not numbers of chains x draws")


class KeepsChains:
    """Mixin of estimators that can be fitted by a sampler. It comes before the shell that it adds to.

    A number that draws keep is the fitted attribute ``<name>_draws_``, chains x draws.
    """

    kept_numbers: ClassVar[tuple[str, ...]]
    n_draws: int
    burn_in: int
    thin: int
    n_chains: int

    def _sampler_settings(self, **more: Any) -> dict[str, Any]:
        """Settings of a `partwise.sampling.gibbs.GibbsSampler`: those of this estimator, and ``more``."""
        return {name: int(getattr(self, name)) for name in ("n_draws", "burn_in", "thin", "n_chains")} | more

    def _store_chains(self, draws: KeptDraws) -> None:
        for name, values in draws.of_chains().items():
            setattr(self, f"{name}_draws_", values)

    def chains(self) -> dict[str, NDArray[np.float64]]:
        """Numbers of each draw, chains x draws, without those that the data do not have; empty without a sampler."""
        if not hasattr(self, "log_joint_draws_"):
            return {}
        found = {name: np.asarray(getattr(self, f"{name}_draws_")) for name in self.kept_numbers}
        return {
            name: values for name, values in found.items() if values.dtype.kind != "f" or not np.isnan(values).any()
        }
