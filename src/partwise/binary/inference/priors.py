"""Parameters of the priors, drawn given counts of labels.

Given the labels, a beta factor gives Γ(α + ones) Γ(β + zeros) / Γ(α + β + both) in each row, up to a constant, and a
Dirichlet factor the same with one term for each component. Both are products over the counts of rising factors, so all
that is needed of the counts is how many of them exceed 0, 1, 2 and so on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partwise.binary.model import SMALLEST, BinaryModel, Priors
from partwise.kernels.arrays import Counts, Floats
from partwise.sampling.concentrations import exceeding, tables, waits


def log_rising(above: NDArray[np.int64], base: Floats) -> float:
    """Σ of log Γ(base + count) - log Γ(base) over all rows and components."""
    return float((above * np.log(base[:, None] + np.arange(above.shape[1]))).sum())


def draw_priors(model: BinaryModel, generator: np.random.Generator, rows: Counts, columns: Counts) -> Floats:
    """Draw those parameters that are estimated given the labels, both factors integrated out; an exact Gibbs step.

    Given tables and waits (see `partwise.sampling.concentrations`), parameters are gamma distributed.
    """
    priors = model.priors
    values = np.array(priors)
    if "beta" in model.estimated:
        both = exceeding(rows.sum(axis=2))
        rate = 1.0 + waits(generator, both, priors.alpha + priors.beta)
        for at, bit in ((0, 1), (1, 0)):
            values[at] = generator.standard_gamma(1.0 + tables(generator, exceeding(rows[..., bit]), values[at])) / rate
    for at, counts in _dirichlet_sides(model, rows, columns):
        sizes = exceeding(counts.sum(axis=1, keepdims=True))
        rate = 1.0 + waits(generator, sizes, values[at].sum(keepdims=True))
        shape = model.concentration_shape + tables(generator, exceeding(counts), values[at])
        values[at] = generator.standard_gamma(shape) / rate
    return np.maximum(values, SMALLEST)


def _dirichlet_sides(model: BinaryModel, rows: Counts, columns: Counts) -> list[tuple[int, Counts]]:
    """Rows of the priors' values that are concentrations to be estimated, each with the counts that it concerns."""
    sides = [("concentration", columns)]
    if model.kind == "dir-dir":
        sides.append(("activation_concentration", rows))
    return [(Priors._fields.index(name), counts) for name, counts in sides if name in model.estimated]
