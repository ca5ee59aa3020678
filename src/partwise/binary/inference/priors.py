"""Parameters of the priors, drawn given counts of labels.

Given the labels, a beta factor contributes Γ(α + ones) Γ(β + zeros) / Γ(α + β + both) in each row, up to a constant. A
Dirichlet factor contributes the same with one term per part. Both are products of rising factors over the counts, so it
is enough to know how many counts exceed 0, 1, 2 and so on.
"""

import numpy as np
from numpy.typing import NDArray

from partwise.binary.model import SMALLEST, BinaryModel, Estimated, Priors
from partwise.kernels.arrays import Counts, Floats
from partwise.sampling.draws import exceeding, tables, waits

Exceeding = NDArray[np.int64]


def log_rising(above: Exceeding, base: Floats) -> float:
    """Σ of log Γ(base + count) - log Γ(base) over all rows and parts."""
    return float((above * np.log(base[:, None] + np.arange(above.shape[1]))).sum())


def exceeding_rows(model: BinaryModel, rows: Counts, size: int | None = None) -> tuple[Exceeding, ...]:
    """How many counts of rows exceed 0, 1, 2 and so on. The priors of the row factor depend on nothing else.

    For beta factors, counts of both bits together, of ones, and of zeros; for Dir-Dir, counts, and sizes of rows. These
    tables can be added over blocks of rows with the same ``size``.
    """
    if model.kind == "dir-dir":
        return exceeding(rows, size), exceeding(rows.sum(axis=1, keepdims=True), size)
    return exceeding(rows.sum(axis=2), size), exceeding(rows[..., 1], size), exceeding(rows[..., 0], size)


def draw_priors(
    model: BinaryModel, generator: np.random.Generator, above: tuple[Exceeding, ...], columns: Counts
) -> Floats:
    """Draw the estimated parameters given the labels, with both factors integrated out: an exact Gibbs step.

    Given tables and waits (see `partwise.sampling.draws`), parameters are gamma distributed.

    Parameters
    ----------
    model
        The model, with the current priors.
    generator
        Source of random numbers.
    above
        The result of `exceeding_rows` for the rows.
    columns
        Counts of labels, columns x parts.
    """
    priors = model.priors
    values = np.array(priors)
    if "beta" in model.estimated:
        both, *bits = above
        rate = 1.0 + waits(generator, both, priors.alpha + priors.beta)
        for at, own in enumerate(bits):
            values[at] = generator.standard_gamma(1.0 + tables(generator, own, values[at])) / rate
    sides: dict[Estimated, tuple[Exceeding, ...]] = {}
    if "concentration" in model.estimated:
        sides["concentration"] = exceeding(columns), exceeding(columns.sum(axis=1, keepdims=True))
    if "activation_concentration" in model.estimated:
        sides["activation_concentration"] = above
    for name, (counts, sizes) in sides.items():
        at = Priors._fields.index(name)
        rate = 1.0 + waits(generator, sizes, values[at].sum(keepdims=True))
        shape = model.concentration_shape + tables(generator, counts, values[at])
        values[at] = generator.standard_gamma(shape) / rate
    return np.maximum(values, SMALLEST)
