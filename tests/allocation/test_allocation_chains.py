"""What holds between chains of AllocationNMF, and at the limits of what its algorithms accept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from partwise import AllocationNMF, CountMatrix
from partwise.allocation.inference.collapsed_variational import check_memory
from partwise.allocation.inference.labels import TokenLabels, check_tokens, kl_factors
from partwise.core.keys import Key
from partwise.engines import resolve_engine
from partwise.errors import InvalidInputError

X = np.random.default_rng(0).poisson(1.5, size=(10, 6))


def fitted(inference: str, **changes: Any) -> AllocationNMF:
    settings = {"n_draws": 4, "burn_in": 2, "n_chains": 1, "random_state": 3, **changes}
    return AllocationNMF(3, inference=inference, **settings).fit(X)


@pytest.mark.parametrize("inference", ["gibbs", "gibbs-partial", "gibbs-distributed"])
def test_a_chain_does_not_depend_on_the_others(inference: str) -> None:
    alone, among = fitted(inference), fitted(inference, n_chains=3)
    for name in ("log_joint_draws_", "n_active_draws_", "evenness_draws_"):
        np.testing.assert_array_equal(getattr(among, name)[:1], getattr(alone, name))
    assert len(np.unique(among.log_joint_draws_)) == among.log_joint_draws_.size


def test_as_many_tokens_as_there_are_labels_are_accepted() -> None:
    check_tokens(CountMatrix.build([[2**31 - 1, 1]]), "this sampler")
    with pytest.raises(InvalidInputError, match="label for each token"):
        check_tokens(CountMatrix.build([[2**31, 1]]), "this sampler")


def test_memory_may_be_used_up() -> None:
    data = CountMatrix.build(X)
    needed = 4.0 * data.nnz * 3
    check_memory(data, 3, needed)
    with pytest.raises(InvalidInputError, match="max_memory"):
        check_memory(data, 3, needed - 1.0)


def test_a_start_has_as_many_iterations_as_asked_for() -> None:
    data = CountMatrix.build(X)
    none, one, two = (
        np.asarray(kl_factors(Key(1), data, 3, None, n_iterations, resolve_engine()).dictionary)
        for n_iterations in (0, 1, 2)
    )
    assert not np.allclose(none, one)
    assert not np.allclose(one, two)


def test_labels_take_as_few_bytes_as_they_can() -> None:
    # one more value than components, for none
    sizes, data = (1, 2**8 - 1, 2**8, 2**16 - 1, 2**16), CountMatrix.build([[1]])
    kinds = [TokenLabels.none_yet(data, n, 1).labels[0].dtype for n in sizes]
    assert kinds == [np.uint8, np.uint8, np.uint16, np.uint16, np.uint32]
