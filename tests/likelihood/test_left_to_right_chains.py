"""How many chains left_to_right takes its draws from: one converges, one for each draw does not."""

from __future__ import annotations

import numpy as np
import pytest

from partwise.errors import InvalidInputError
from partwise.likelihood import exact, left_to_right

# The second feature contradicts what the first says: a particle that is not weighted by it keeps the wrong part.
DICTIONARY = np.array([[0.9, 0.1], [0.02, 0.9]])
X = np.array([[3, 6]])


def mean_error(n_chains: int, n_draws: int) -> tuple[float, float]:
    """Mean of log p-hat - log p over 40 replicates, and its standard error."""
    rows = np.repeat(X, 40, axis=0)
    result = left_to_right(rows, DICTIONARY, 0.3, 0.2, rng=0, n_draws=n_draws, n_chains=n_chains, conditionals="exact")
    errors = result.values - exact(X, DICTIONARY, 0.3, 0.2).values[0]
    return float(errors.mean()), float(errors.std(ddof=1) / np.sqrt(errors.size))


def test_one_chain_converges_and_a_chain_for_each_draw_does_not() -> None:
    # False alarm below 1e-4: four standard errors of 40 replicates.
    error, standard_error = mean_error(1, 4000)
    assert abs(error) < 4 * standard_error + 1e-3
    limit, standard_error = mean_error(4000, 4000)
    assert abs(limit) > 0.05 + 4 * standard_error


@pytest.mark.parametrize("n_chains", [0, 11])
def test_number_of_chains_is_checked(n_chains: int) -> None:
    with pytest.raises(InvalidInputError, match="n_chains must be between 1 and n_draws = 10"):
        left_to_right(X, DICTIONARY, 1.0, 1.0, n_draws=10, n_chains=n_chains)
