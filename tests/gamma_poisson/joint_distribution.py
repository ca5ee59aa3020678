"""A joint distribution test of samplers (Geweke 2004), made of independent short chains.

A chain starts from a draw of parameters and data from the joint distribution, and then alternates between a step of the
sampler given the data and new data given the parameters. If the sampler is right, whatever is looked at has the same
distribution after the last step as in the first draw. Chains are independent, so two-sample tests are exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats


def smallest_p_value(chain: Callable[[int], tuple[np.ndarray, np.ndarray]], n_chains: int) -> float:
    """Of Kolmogorov-Smirnov tests of each statistic at the start and at the end, times the number of statistics.

    ``chain(seed)`` gives the statistics at its start and at its end; half of the chains serve for each, so that the
    two samples are independent.
    """
    ends = [chain(seed) for seed in range(n_chains)]
    first = np.array([start for start, _ in ends[::2]])
    last = np.array([end for _, end in ends[1::2]])
    p_values = [stats.ks_2samp(first[:, s], last[:, s]).pvalue for s in range(first.shape[1])]
    return float(min(1.0, len(p_values) * min(p_values)))
