"""What estimators that can be fitted by a sampler share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from partwise.core.result import Status
from partwise.sampling.agreement import SAME_PART, ChainsAgree, naming_parts, part_agreement
from partwise.sampling.draws import KeptDraws
from partwise.sampling.gibbs import GibbsSampler

"""What ``max_iter`` may be beside a number."""
# Of a run that goes on until its chains agree, and iterations of fits without chains.
_MOST_SWEEPS, _MOST_ITERATIONS = 5000, 500


class KeepsChains:
    """Mixin of estimators that can be fitted by a sampler. It comes before the shell that it adds to.

    A number that draws keep is the fitted attribute ``<name>_draws_``, chains x draws.
    """

    kept_numbers: ClassVar[tuple[str, ...]]
    n_draws: int
    burn_in: int
    thin: int
    n_chains: int
    max_iter: Any
    status_: Status
    active_components_: NDArray[np.intp]
    part_agreement_: NDArray[np.float64]

    def _most_sweeps(self, algorithm: GibbsSampler[Any, Any]) -> int:
        """Sweeps in all: those that are asked for, or with ``max_iter="auto"`` as many as chains need to agree."""
        return algorithm.sweeps_within(_MOST_SWEEPS if self.max_iter == "auto" else 0)

    @property
    def _most_iterations(self) -> int:
        """Iterations of fits without chains."""
        return _MOST_ITERATIONS if self.max_iter == "auto" else int(self.max_iter)

    @property
    def _chain_rule(self) -> ChainsAgree:
        """When chains have converged, and what to do if they have not."""
        if self.max_iter == "auto":
            return ChainsAgree(remedy="try fewer components, or more draws")
        return ChainsAgree(remedy="raise burn_in and n_draws, or set max_iter='auto'")

    def _sampler_settings(self, **more: Any) -> dict[str, Any]:
        """Settings of a `partwise.sampling.gibbs.GibbsSampler`: those of this estimator, and ``more``."""
        return {name: int(getattr(self, name)) for name in ("n_draws", "burn_in", "thin", "n_chains")} | more

    def _store_chains(self, draws: KeptDraws, dictionaries: Any) -> None:
        """Store numbers of draws, and name parts that chains do not share; dictionaries are features x components."""
        self._store_numbers(draws)
        self.part_agreement_ = part_agreement(dictionaries, draws.likeliest)
        compared = int(np.sum(~np.isnan(self.part_agreement_[self.active_components_])))
        message = naming_parts(self.status_.message, self.tentative_parts(), compared)
        self.status_ = replace(self.status_, message=message)

    def _store_numbers(self, draws: KeptDraws) -> None:
        for name, values in draws.of_chains().items():
            setattr(self, f"{name}_draws_", values)

    def tentative_parts(self) -> list[int]:
        """Active parts that not every chain has found: the cosine with their match in some chain is below 0.8."""
        agreement = getattr(self, "part_agreement_", None)
        return [] if agreement is None else [int(k) for k in self.active_components_ if agreement[k] < SAME_PART]

    def chains(self) -> dict[str, NDArray[np.float64]]:
        """Numbers of each draw, chains x draws, without those that the data do not have; empty without a sampler."""
        if not hasattr(self, "log_joint_draws_"):
            return {}
        found = {name: np.asarray(getattr(self, f"{name}_draws_")) for name in self.kept_numbers}
        return {
            name: values for name, values in found.items() if values.dtype.kind != "f" or not np.isnan(values).any()
        }
