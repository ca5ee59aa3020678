"""Other algorithms for Poisson factorization, on the kernels of partwise where these serve: one iteration at a time.

Extrapolated multiplicative updates: Hien, Leplat and Gillis (2024), "Block majorization minimization with extrapolation
and application to beta-NMF". Second-order majorants: Pham, Cohen and Chonavel (2023), "A fast multiplicative updates
algorithm for non-negative matrix factorization", with the row sums of the Hessian as its majorant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Factors = tuple[Floats, Floats]
Solver = Callable[[Any, Any, Factors, Factors], Iterator[Factors]]
"""``solver(samples, features, start, floors)`` gives activations and dictionary after each iteration."""

_C, _Q = 1e4, 1.0001
_INNER, _LEAST = 2, 0.1


def extrapolated(samples: Any, features: Any, start: Factors, floors: Factors) -> Iterator[Factors]:
    """MU from points ahead: w + a max(w - w_before, 0), a being Nesterov's, bounded by what was moved."""
    now, before, nesterov, number = list(start), list(start), 1.0, 0
    while True:
        number += 1
        after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * nesterov**2))
        longest, nesterov = (nesterov - 1.0) / after, after
        for which, side in enumerate((samples, features)):
            moved = now[which] - before[which]
            length = float(np.linalg.norm(moved))
            bound = _C * number ** (-0.5 * _Q) * float(np.linalg.norm(now[which])) / length if length > 0 else 0.0
            ahead = now[which] + min(longest, bound) * np.maximum(moved, 0.0)
            counts, _ = side.expected_counts(ahead, now[1 - which])
            before[which] = now[which]
            now[which] = np.maximum(counts / now[1 - which].sum(axis=0), floors[which][:, None])
        yield now[0], now[1]


def second_order(samples: Any, features: Any, start: Factors, floors: Factors) -> Iterator[Factors]:
    """Steps gradient / majorant of all coordinates at once; none falls below a tenth of what it was."""
    now = [factor.copy() for factor in start]
    while True:
        for which, side in enumerate((samples, features)):
            other = now[1 - which]
            held = other, other.sum(axis=0), other.sum(axis=1), floors[which]
            _second_order(side.data.indptr, side.data.indices, side.data.values, *held, _INNER, now[which])
        yield now[0], now[1]


def _second_order_rows(
    indptr: Any, indices: Any, values: Any, other: Any, exposure: Any, sums: Any, floors: Any, inner: int, out: Any
) -> None:
    n_components = exposure.size
    slope, curve = np.empty(n_components), np.empty(n_components)
    for n in range(out.shape[0]):
        for _ in range(inner):
            slope[:] = 0.0
            curve[:] = 0.0
            for p in range(indptr[n], indptr[n + 1]):
                f = indices[p]
                rate = 0.0
                for k in range(n_components):
                    rate += out[n, k] * other[f, k]
                ratio = values[p] / rate
                bend = ratio / rate * sums[f]
                for k in range(n_components):
                    slope[k] += ratio * other[f, k]
                    curve[k] += bend * other[f, k]
            for k in range(n_components):
                moved = out[n, k] - (exposure[k] - slope[k]) / max(curve[k], 1e-300)
                out[n, k] = max(moved, _LEAST * out[n, k], floors[n])


_second_order: Any = numba.njit(fastmath={"reassoc", "contract"}, error_model="numpy", nogil=True)(_second_order_rows)

SOLVERS: dict[str, Solver] = {
    "extrapolated multiplicative updates (BMMe)": extrapolated,
    "second-order majorants (mSOM)": second_order,
}
"""By their names in the table."""
