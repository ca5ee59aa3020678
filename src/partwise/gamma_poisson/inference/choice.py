"""From the parameters of the estimator to an algorithm, and to the rule by which it stops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise.core.convergence import Rule, SmallChange, Threshold
from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.errors import InvalidInputError
from partwise.gamma_poisson.inference.auto import Auto
from partwise.gamma_poisson.inference.exact_em import ExactEM
from partwise.gamma_poisson.inference.joint import JointEM
from partwise.gamma_poisson.inference.mcem import MonteCarloEM
from partwise.gamma_poisson.inference.online import OnlineEM
from partwise.gamma_poisson.inference.report import GammaPoissonAlgorithm
from partwise.gamma_poisson.inference.saem import StochasticApproximationEM
from partwise.gamma_poisson.inference.vem import VariationalEM

Floats = NDArray[np.float64]

# All data together give no more than this many nats worth of an answer: far less than a tie between two models.
_NEGLIGIBLE = 5e-2


@dataclass(frozen=True)
class Defaults:
    """What an algorithm takes where the user says nothing, and whether it needs whole counts."""

    max_iter: int
    draws: int = 0
    burn_in: int = 0
    e_step: str = ""
    integers: bool = True


ALGORITHMS = {
    "auto": Defaults(2000),
    "mcem-c": Defaults(500, 150, 150, "sampled"),
    "mcem-h": Defaults(500, 150, 150, "sampled"),
    "mcem-ch": Defaults(500, 150, 150, "sampled"),
    "saem": Defaults(500, 1, 0, "rao-blackwell"),
    "online": Defaults(500, 3, 2),
    "vem": Defaults(2000, integers=False),
    "joint": Defaults(2000, integers=False),
    "exact-em": Defaults(1000),
}


@dataclass(frozen=True)
class Choice:
    """The settings of a fit."""

    inference: str
    shape: Floats
    rate: Floats
    estimate_shape: bool
    start: Floats | None
    e_step: str | None
    draws: int | None
    burn_in: int | None
    n_starts: int
    batch_size: int
    tol: float
    engine: Engine
    n_jobs: int | None

    @property
    def _defaults(self) -> Defaults:
        return ALGORITHMS[self.inference]

    def algorithm(self, data: SparseData) -> GammaPoissonAlgorithm:
        """The algorithm that was asked for."""
        if self.inference == "auto":
            return Auto(
                shape=self.shape,
                rate=self.rate,
                estimate_shape=self.estimate_shape,
                start=self.start,
                n_starts=self.n_starts,
                tol=self._tol(data) / data.total,
                n_jobs=self.n_jobs,
                engine=self.engine,
            )
        if self.inference == "vem":
            return VariationalEM(self.shape, self.rate, self.estimate_shape, self.start, self.engine)
        if self.inference == "exact-em":
            return ExactEM(self.shape, self.rate, self.estimate_shape, self.start, self.n_jobs, self.engine)
        if self.inference == "joint":
            if self.estimate_shape or np.any(self.shape < 1):
                raise InvalidInputError(
                    "inference='joint' needs a shape of at least 1, given and not estimated, as the joint likelihood is"
                    " unbounded at activations of 0 below: use inference='auto'."
                )
            return JointEM(self.shape, self.rate, self.start, self.engine)
        if self.inference == "online":
            return self.online()
        return self._monte_carlo()

    def online(self) -> OnlineEM:
        """On-line EM, by which ``partial_fit`` works too."""
        defaults = ALGORITHMS["online"]
        draws, burn_in = self.draws or defaults.draws, self.burn_in if self.burn_in is not None else defaults.burn_in
        return OnlineEM(
            self.shape, self.rate, self.estimate_shape, self.start, self.batch_size, draws, burn_in, self.engine
        )

    def _monte_carlo(self) -> MonteCarloEM:
        defaults = self._defaults
        settings = (
            self.shape,
            self.rate,
            self.estimate_shape,
            self.start,
            "c" if self.inference == "saem" else self.inference.removeprefix("mcem-"),
            self.e_step or defaults.e_step,
            self.draws or defaults.draws,
            defaults.burn_in if self.burn_in is None else self.burn_in,
            self.engine,
        )
        return StochasticApproximationEM(*settings) if self.inference == "saem" else MonteCarloEM(*settings)

    def rule(self, data: SparseData) -> Rule | None:
        """When the algorithm has converged; None if it runs as long as it is told."""
        if self.inference == "auto":
            return Threshold("remaining_gain", self._tol(data) / data.total) if self.tol > 0 else None
        if self.inference in ("vem", "joint", "exact-em"):
            return SmallChange(self._tol(data), 1.0, patience=2) if self.tol > 0 else None
        return None

    def _tol(self, data: SparseData) -> float:
        """In nats."""
        return max(self.tol * data.total, _NEGLIGIBLE) if self.tol > 0 else 0.0
