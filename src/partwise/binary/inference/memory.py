"""How much memory a fit will take, told before it starts."""

from __future__ import annotations

import numpy as np

from partwise.binary.inference.starts import label_type
from partwise.errors import InvalidInputError

_FACTOR_BYTES = 60  # counts, sums and squares of each entry of a factor, and a copy or two


def needed_bytes(
    inference: str, shape: tuple[int, int], n_cells: int, n_components: int, n_chains: int, *, pair: bool
) -> int:
    """An estimate of the largest amount of memory a fit holds at once.

    Examples
    --------
    >>> needed_bytes("cvb0", (1226, 285), 349410, 100, 1, pair=False) // 10**6
    158
    """
    n_rows, n_columns = shape
    needed = 4 * n_cells + 24 * n_rows * n_columns
    sampler = inference.startswith("gibbs")
    needed += (n_chains if sampler else 1) * _FACTOR_BYTES * (n_rows + n_columns) * n_components
    if sampler:
        needed += n_chains * n_cells * np.dtype(label_type(n_components)).itemsize * (2 if pair else 1)
    if inference in ("cvb0", "cvb"):
        needed += 4 * n_cells * n_components
    return needed


def refuse_beyond(limit: float, needed: int, inference: str) -> None:
    """Raise where a fit would need more memory than is allowed."""
    if needed <= limit:
        return
    why = "the responsibilities of every cell" if inference.startswith("cvb") else "every observed cell"
    remedy = "inference='gibbs' or " if inference.startswith("cvb") else ""
    raise InvalidInputError(
        f"inference={inference!r} stores {why}, about {needed / 1e9:.3g} GB here, which is more than"
        f" max_memory={limit / 1e9:.3g} GB: raise max_memory, or use {remedy}fewer components or samples."
    )
