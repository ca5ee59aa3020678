"""Weights of predictions that should not count the same, such as those of chains that have not mixed."""

import numpy as np

from partwise.kernels.arrays import Floats

_STEPS = 100
_PRIOR_CELLS = 10.0


def stacking_weights(left_out: Floats) -> Floats:
    """Weights that sum to 1 and under which the mixture of some predictions says best what it has not seen.

    Stacking of predictive distributions (Yao, Vehtari & Gelman 2022): the weights maximise Σ_i log Σ_g w_g p_gi, by
    steps of EM from equal weights. A prior that counts like ten cells for each keeps them near each other where cells
    are few.

    Parameters
    ----------
    left_out
        Predictions x cells: the probability that each gives to what a cell shows, the cell itself left out.

    Examples
    --------
    >>> stacking_weights(np.array([[0.9, 0.8], [0.5, 0.6]]).repeat(500, axis=1)).round(2).tolist()
    [0.97, 0.03]
    """
    weights = np.full(len(left_out), 1.0 / len(left_out))
    for _ in range(_STEPS):
        shares = weights[:, None] * left_out
        shares /= shares.sum(axis=0)
        weights = shares.sum(axis=1) + _PRIOR_CELLS
        weights /= weights.sum()
    return weights
