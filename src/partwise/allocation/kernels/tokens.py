"""What is known of the labels of all tokens: their counts."""

from __future__ import annotations

from partwise.kernels.arrays import Counts, Numbers
from partwise.kernels.inner import inline_kernel


@inline_kernel
def count_token(
    sample_counts: Counts, feature_counts: Counts, component_counts: Numbers, n: int, f: int, k: int, change: int
) -> None:
    """``sample_counts[n, k] += change; feature_counts[f, k] += change; component_counts[k] += change``."""
    sample_counts[n, k] += change
    feature_counts[f, k] += change
    component_counts[k] += change
