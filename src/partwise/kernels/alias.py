"""Alias tables (Walker 1977; Vose 1991): draws from weights at a cost that does not depend on how many there are."""

import numpy as np

from partwise.kernels.arrays import Numbers
from partwise.kernels.jit import inline_kernel, kernel
from partwise.kernels.streams import Stream, next_uniform


@kernel
def build_tables(weights: Numbers, start: int, stop: int, thresholds: Numbers, aliases: Numbers) -> None:
    """Tables of rows of ``weights``, each summing to 1.

    ``(thresholds + bincount(aliases, 1 - thresholds, minlength=K)) / K`` is the row again.
    """
    n_components = weights.shape[1]
    small, large = np.empty(n_components, np.int32), np.empty(n_components, np.int32)
    rest = np.empty(n_components)
    for f in range(start, stop):
        n_small, n_large = 0, 0
        for k in range(n_components):
            rest[k] = weights[f, k] * n_components
            aliases[f, k] = k
            if rest[k] < 1.0:
                small[n_small] = k
                n_small += 1
            else:
                large[n_large] = k
                n_large += 1
        while n_small > 0 and n_large > 0:
            n_small -= 1
            poor, rich = small[n_small], large[n_large - 1]
            aliases[f, poor] = rich
            rest[rich] -= 1.0 - rest[poor]
            if rest[rich] < 1.0:
                n_large -= 1
                small[n_small] = rich
                n_small += 1
        # Entries that rounding left over are full.
        for i in range(n_small):
            rest[small[i]] = 1.0
        for i in range(n_large):
            rest[large[i]] = 1.0
        for k in range(n_components):
            thresholds[f, k] = rest[k]


@inline_kernel
def draw_from_table(stream: Stream, thresholds: Numbers, aliases: Numbers, f: int) -> tuple[int, float]:
    """``rng.choice(K, p=weights[f]), rng.random()``: one uniform number gives both, as the rest of it is uniform."""
    t = next_uniform(stream) * thresholds.shape[1]
    k = min(int(t), thresholds.shape[1] - 1)
    rest = t - k
    threshold = float(thresholds[f, k])
    if rest < threshold:
        return k, rest / threshold
    return int(aliases[f, k]), (rest - threshold) / (1.0 - threshold)
