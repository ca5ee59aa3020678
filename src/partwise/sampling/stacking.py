"""Weights for predictions that should not count equally, such as those of chains that have not mixed."""

import numpy as np

from partwise.kernels.arrays import Floats

_STEPS = 100


def stacking_weights(left_out: Floats) -> Floats:
    """Weights with sum 1 under which a mixture of predictions best predicts unseen data.

    Stacking of predictive distributions (Yao, Vehtari & Gelman 2022): the weights maximise Σ_i log Σ_g w_g p_gi. A few
    EM steps from equal weights do this, so weights stay similar if the data say little.

    Parameters
    ----------
    left_out
        Predictions x cells: the probability that each prediction gives to the value of a cell, with the cell left out.

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
