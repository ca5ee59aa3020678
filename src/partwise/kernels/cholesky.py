"""Linear equations by the Cholesky factor of their matrix."""

from partwise.kernels.arrays import Floats
from partwise.kernels.jit import inner_kernel


@inner_kernel
def solve(factor: Floats, n_open: int, vector: Floats) -> None:
    """``vector[:] = np.linalg.solve(factor @ factor.T, vector)``."""
    for i in range(n_open):
        total = 0.0
        for j in range(i):
            total += factor[i, j] * vector[j]
        vector[i] = (vector[i] - total) / factor[i, i]
    for i in range(n_open - 1, -1, -1):
        total = 0.0
        for j in range(i + 1, n_open):
            total += factor[j, i] * vector[j]
        vector[i] = (vector[i] - total) / factor[i, i]
