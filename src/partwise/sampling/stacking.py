"""Weights of predictions that should not count the same, such as those of chains that have not mixed."""

import numpy as np

from partwise.kernels.arrays import Floats

_STEPS = 100


def stacking_weights(left_out: Floats) -> Floats:
    """Weights that sum to 1 and under which the mixture of some predictions says best what it has not seen.

    Stacking of predictive distributions (Yao, Vehtari & Gelman 2022): the weights maximise Σ_i log Σ_g w_g p_gi. Steps
    of EM from equal weights do so; as they are few, weights stay near each other where the data tell little.

    Parameters
    ----------
    left_out
        Predictions x cells: the probability that each gives to what a cell shows, the cell itself left out.

    Examples
    --------
    >>> stacking_weights(np.array([[0.9, 0.8, 0.9], [0.5, 0.6, 0.5]])).round(2).tolist()
    [1.0, 0.0]
    """
    weights = np.full(len(left_out), 1.0 / len(left_out))
    if left_out.shape[1] == 0:
        return weights
    for _ in range(_STEPS):
        shares = weights[:, None] * left_out
        shares /= shares.sum(axis=0)
        weights = shares.mean(axis=1)
    return np.asarray(weights / weights.sum())
