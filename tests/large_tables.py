"""A table of the size that reports are made for, and a model of it."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from partwise import PoissonNMF
from partwise.io.table import Table

N_SAMPLES, N_FEATURES, N_COMPONENTS = 100_000, 20_000, 20


def large_table() -> tuple[PoissonNMF, Table]:
    """20,000 features and 100,000 samples, with labels as single-cell data have them."""
    rng = np.random.default_rng(0)
    components = rng.dirichlet(np.full(N_FEATURES, 0.05), size=N_COMPONENTS)
    X = sp.csr_array(
        (
            rng.integers(1, 4, size=20 * N_SAMPLES),
            (np.repeat(np.arange(N_SAMPLES), 20), rng.integers(N_FEATURES, size=20 * N_SAMPLES)),
        ),
        shape=(N_SAMPLES, N_FEATURES),
    )
    labels = np.array([f"AAACCTGAGCATCGCA-{n}" for n in range(N_SAMPLES)])
    names = np.array([f"ENSG{f:011d}" for f in range(N_FEATURES)])
    model = PoissonNMF.from_components(components, feature_names=names)
    return model, Table(X, labels, names)
