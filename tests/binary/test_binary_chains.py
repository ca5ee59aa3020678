"""What holds between chains, draws and factors of BinaryNMF, whatever the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from binary_samples import planted

from partwise import BinaryNMF

X = planted(n_samples=12, n_features=7)
SAMPLERS = [("gibbs", "beta-dir"), ("gibbs", "dir-beta"), ("gibbs", "dir-dir"), ("gibbs-partial", "beta-dir")]


def fitted(inference: str, model: str, n_components: int = 3, **changes: Any) -> BinaryNMF:
    settings = {"n_draws": 4, "burn_in": 2, "thin": 1, "n_chains": 1, "random_state": 3, **changes}
    return BinaryNMF(n_components, model=model, inference=inference, **settings).fit(X)


@pytest.mark.parametrize(("inference", "model"), SAMPLERS)
def test_a_chain_does_not_depend_on_the_others(inference: str, model: str) -> None:
    alone, among = fitted(inference, model), fitted(inference, model, n_chains=3)
    for name in ("log_joint_draws_", "log_likelihood_draws_", "n_active_draws_", "missing_probability_draws_"):
        np.testing.assert_array_equal(getattr(among, name)[:1], getattr(alone, name))
    assert len(np.unique(among.log_joint_draws_)) == among.log_joint_draws_.size


@pytest.mark.parametrize(("inference", "model"), SAMPLERS)
def test_standard_deviations_of_two_shares_are_equal(inference: str, model: str) -> None:
    # a Dirichlet factor of two components: one share is 1 minus the other
    model_of_two = fitted(inference, model, 2)
    factors = {"components_": model_of_two.components_, "activations_": model_of_two.activations_.T}
    spread = {"components_": model_of_two.components_std_, "activations_": model_of_two.activations_std_.T}
    dirichlet = {"beta-dir": ["components_"], "dir-beta": ["activations_"], "dir-dir": ["components_", "activations_"]}
    for name in dirichlet[model]:
        np.testing.assert_allclose(factors[name].sum(axis=0), 1.0)
        np.testing.assert_allclose(spread[name][0], spread[name][1], rtol=1e-6)
    for name in factors:
        mean, std = factors[name], spread[name]
        assert np.all(std > 0.0)
        assert np.all(std**2 <= mean * (1.0 - mean) + 1e-12), "no variable between 0 and 1 varies more"


@pytest.mark.parametrize("model", ["beta-dir", "dir-beta"])
@pytest.mark.parametrize("inference", ["gibbs", "gibbs-partial"])
def test_one_component_has_a_beta_posterior(inference: str, model: str) -> None:
    found = fitted(inference, model, 1, beta_prior=(1.3, 0.6))
    axis = 1 if model == "beta-dir" else 0
    a, b = 1.3 + (X == 1).sum(axis=axis), 0.6 + (X == 0).sum(axis=axis)
    mean, std = a / (a + b), np.sqrt(a * b / (a + b + 1.0)) / (a + b)
    factor = found.activations_[:, 0], found.activations_std_[:, 0]
    other = found.components_[0], found.components_std_[0]
    if model == "dir-beta":
        factor, other = other, factor
    np.testing.assert_allclose(factor[0], mean)
    np.testing.assert_allclose(factor[1], std, rtol=1e-6)
    np.testing.assert_allclose(other[0], 1.0)
    np.testing.assert_allclose(other[1], 0.0, atol=1e-7)
