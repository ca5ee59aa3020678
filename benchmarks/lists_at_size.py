"""Lists at size: fit 100,000 rows x 50,000 features with 10^7 counts, and list 20 features for every row.

All in one process with two threads. Run ``python -m benchmarks.lists_at_size [SHARE]`` in the root of the repository;
SHARE (default 1) is the share of the rows. It prints wall-clock and CPU
seconds, iterations and the peak of memory.
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from partwise import PoissonNMF

ROWS, FEATURES, COUNTS, PARTS, PLACES = 100_000, 50_000, 10**7, 50, 20


def plays(n_rows: int, seed: int = 0) -> Any:
    """Counts of rows with a few tastes each; every taste draws its plays one by one, so that nothing is dense."""
    rng = np.random.default_rng(seed)
    tokens = rng.multinomial(COUNTS * n_rows // ROWS, rng.dirichlet(np.full(n_rows, 2.0)))
    of_parts = rng.multinomial(tokens, rng.dirichlet(np.full(PARTS, 0.1), n_rows))
    fame, rows, columns = rng.lognormal(0.0, 1.0, FEATURES), [], []
    for plays_of_part in of_parts.T:
        weights = rng.gamma(0.05, 1.0, FEATURES) * fame
        rows.append(np.repeat(np.arange(n_rows), plays_of_part))
        columns.append(rng.choice(FEATURES, rows[-1].size, p=weights / weights.sum()))
    places = np.concatenate(rows), np.concatenate(columns)
    return sp.csr_array(sp.coo_array((np.ones(places[0].size, np.int32), places), shape=(n_rows, FEATURES)))


def main() -> None:
    """Measure once."""
    counts = plays(round(ROWS * float(sys.argv[1] if len(sys.argv) > 1 else 1)))
    print(f"{counts.shape[0]:,} x {FEATURES:,}, {counts.sum():,} counts, {counts.nnz:,} nonzeros", flush=True)
    began = _now()
    model = PoissonNMF(PARTS, random_state=0, n_jobs=2, progress=False).fit(counts)
    fitted = _now()
    print(f"fit {_seconds(began, fitted)}, {model.n_iter_} iterations. {model.status_}", flush=True)
    lists = model.recommend(counts, n=PLACES)
    listed = _now()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"lists of {len(lists.positions):,} rows {_seconds(fitted, listed)}", flush=True)
    print(f"in all {_seconds(began, listed)}, at most {peak:.2f} GB")


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _seconds(began: tuple[float, float], ended: tuple[float, float]) -> str:
    return f"{ended[0] - began[0]:.0f} s ({ended[1] - began[1]:.0f} CPU seconds)"


if __name__ == "__main__":
    main()
