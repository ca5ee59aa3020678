"""Activations of samples for a dictionary that is held fixed, and how well the counts determine them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partwise.core.blas import one_blas_thread
from partwise.core.data import SparseData
from partwise.engines.base import Engine
from partwise.engines.blocks import row_blocks
from partwise.poisson.inference.passes import Side
from partwise.poisson.inference.units import rows_of_usual_size

Floats = NDArray[np.float64]


def solve_activations(
    data: SparseData, dictionary: Floats, engine: Engine, *, tol: float = 1e-8, max_sweeps: int = 1000
) -> Floats:
    """Maximum-likelihood activations: a concave problem for each row, each solved to ``tol`` on its own.

    A row's result depends on that row alone, so it is the same in any batch. Counts of features that no component
    holds are left out. Where a component cannot show in the observed cells of a row, its activation is 0.
    """
    dictionary = np.ascontiguousarray(dictionary)
    held = np.any(dictionary > 0, axis=1)
    data, exponents = rows_of_usual_size(data.only(held[data.indices]))
    n_components = dictionary.shape[1]
    activations = np.repeat(data.row_sums[:, None] / n_components, n_components, axis=1)
    sums = dictionary.sum(axis=0)
    scale = np.where(sums > 0, sums, 1.0)
    samples, floors = Side(data, engine), np.zeros(data.shape[0])
    samples.coordinate_descent(activations, dictionary / scale, floors=floors, max_sweeps=max_sweeps, tol=tol)
    return np.where(sums > 0, np.ldexp(activations, exponents[:, None]) / scale, 0.0)


def standard_errors(data: SparseData, activations: Floats, dictionary: Floats, engine: Engine) -> Floats:
    """Square roots of the diagonal of the inverse expected information, Σ_f w_fk w_fl / rate_f over observed cells.

    Rates are taken where each component has at least one expected count: the information at 0 is infinite for a
    component with features of its own, although nothing is known below about one count.
    Infinite where the observed cells say nothing about a component, or cannot tell it from others.
    """
    errors = np.empty(activations.shape)
    dictionary = np.ascontiguousarray(dictionary)
    held = dictionary[np.any(dictionary > 0, axis=1)]

    def one(block: tuple[int, int]) -> None:
        for n in range(*block):
            hidden = data.missing_indices[data.missing_indptr[n] : data.missing_indptr[n + 1]]
            seen = held
            if hidden.size:
                seen = np.delete(dictionary, hidden, axis=0)
                seen = seen[np.any(seen > 0, axis=1)]
            exposure = seen.sum(axis=0)
            one_count = np.divide(1.0, exposure, out=np.zeros(exposure.size), where=exposure > 0)
            weighted = seen / np.sqrt(seen @ np.maximum(activations[n], one_count))[:, None]
            errors[n] = _root_diagonal_of_inverse(weighted.T @ weighted)

    with one_blas_thread():
        engine.for_each(one, row_blocks(data.indptr, most_rows=64))
    return errors


def _root_diagonal_of_inverse(information: Floats) -> Floats:
    """Of a positive semidefinite matrix; infinite for coordinates that its null space touches."""
    scale = np.sqrt(np.diag(information))
    safe = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(information / np.outer(safe, safe))
    null = values <= 1e-12 * max(float(values[-1]), 1e-300)
    variance = (vectors[:, ~null] ** 2) @ (1.0 / values[~null])
    lost = (scale == 0) | ((vectors[:, null] ** 2).sum(axis=1) > 1e-8)
    return np.where(lost, np.inf, np.sqrt(variance) / safe)
