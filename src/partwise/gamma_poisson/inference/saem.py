"""Stochastic approximation EM: few draws an iteration, averaged over iterations."""

from __future__ import annotations

from dataclasses import dataclass

from partwise.gamma_poisson.inference.mcem import MonteCarloEM


@dataclass
class StochasticApproximationEM(MonteCarloEM):
    """MCEM-C whose statistic Σ_n c_nfk is a running average over iterations (Kuhn & Lavielle 2004).

    Parameters
    ----------
    exploration
        Iterations of weight 1, in which the start is forgotten.
    decay
        After them, the weight of the i-th iteration is i^-decay; between 1/2 and 1.
    """

    exploration: int = 50
    decay: float = 0.7

    def _weight(self, iteration: int) -> float:
        return float(max(iteration - self.exploration, 1) ** -self.decay)
