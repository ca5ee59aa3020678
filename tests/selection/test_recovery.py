"""Of simulated data compare recommends the number of parts and the model that they were drawn with.

As the project asks: dictionary concentration 0.1, activations of shape 0.3, 100 tokens or 60 bits a row, 4 parts,
candidates from 1 to 8. A Gamma-Poisson model with a Dirichlet prior of its dictionary is what `gamma-poisson` (without
the prior) and `beta-gamma-pfa` (with it) are for. Given the totals of rows it is the model of `allocation`: shares of
activations that have one rate are Dirichlet. The truth is the best of the three.
"""

from __future__ import annotations

import pytest

from partwise.datasets import simulate_allocation, simulate_binary, simulate_gamma_poisson
from partwise.selection import Comparison, compare

SIZES = {"n_samples": 100, "n_features": 60, "n_components": 4}
TRUTHS = {
    "gamma-poisson": (simulate_gamma_poisson, ["gamma-poisson", "beta-gamma-pfa", "allocation"]),
    "allocation": (simulate_allocation, ["allocation"]),
    "beta-dir": (simulate_binary, ["beta-dir"]),
}


def compared(kind: str, seed: int, **options) -> Comparison:
    simulate, _ = TRUTHS[kind]
    X = simulate(**SIZES, random_state=seed).table
    return compare(X, random_state=seed, **{"ranks": range(1, 9), **options})


def is_right(found: Comparison, kind: str) -> bool:
    """Whether the model is the generating one, or cannot be told from it."""
    truth = [found.standings.best_of(name) for name in TRUTHS[kind][1]]
    return any(found.recommended.model == own.model for own in truth) or any(
        not found.difference(found.recommended, own).significant for own in truth
    )


def is_safe(found: Comparison) -> bool:
    """Whether no candidate with all restarts is significantly better than the recommended one."""
    gaps = [found.difference(choice, found.recommended) for choice in found.standings.finalists]
    return not any(gap.value > 0 and gap.significant for gap in gaps)


@pytest.mark.parametrize("kind", TRUTHS)
def test_one_of_each(kind: str) -> None:
    models = {"gamma-poisson": ["poisson", "beta-gamma-pfa"], "allocation": ["poisson", "allocation"]}.get(kind)
    if kind == "beta-dir":
        models = ["beta-dir", "logistic-pca"]
    found = compared(kind, 0, models=models, ranks=[2, 3, 4, 5, 6], n_restarts=2)
    assert found.recommended == (models[-1] if kind != "beta-dir" else "beta-dir", 4)
    assert is_safe(found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRUTHS)
def test_eight_of_ten(kind: str) -> None:
    all_found = [compared(kind, seed) for seed in range(10)]
    assert sum(found.recommended.rank == 4 for found in all_found) >= 8
    assert sum(is_right(found, kind) for found in all_found) >= 8
    assert all(is_safe(found) for found in all_found)
