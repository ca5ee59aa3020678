"""Is this Poisson? How much counts vary around the expected values of a fitted model, and whether that is too much."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from partwise.core.blas import one_blas_thread
from partwise.errors import EmptyRowsWarning, InvalidInputError
from partwise.metrics.dispersion import Dispersion, dispersion_of, leverages_of

# This many cells, of evenly spaced rows, are looked at, of at least this many rows; features only where most rows are.
_MOST_CELLS, _FEWEST_ROWS, _MOST_SHARE = 1_000_000, 20, 0.1


def dispersion_test(model: Any, X: Any) -> Dispersion:
    """Test whether counts vary around the expected values of a model as Poisson counts do.

    This is the score test against negative-binomial noise (Dean 1992). A fit comes closer to its data than the truth
    does: each cell's leverage, the share of its own noise that its expected value follows, is taken into account. A
    model with too few parts leaves structure behind, which counts as noise here.

    Parameters
    ----------
    model
        A fitted model of counts.
    X
        Counts, best those that it was fitted to.

    Returns
    -------
    Dispersion
        ``size``, ``statistic``, ``p_value`` and ``poisson``.

    Examples
    --------
    >>> import numpy as np
    >>> from partwise import PoissonNMF
    >>> from partwise.selection import dispersion_test
    >>> rng = np.random.default_rng(0)
    >>> rates = np.outer(rng.gamma(3.0, 40.0, size=50), rng.dirichlet(np.ones(20)))
    >>> quiet, noisy = rng.poisson(rates), rng.poisson(rates * rng.gamma(5.0, 0.2, size=rates.shape))
    >>> [dispersion_test(PoissonNMF(1, random_state=0).fit(X), X).poisson for X in (quiet, noisy)]
    [True, False]
    """
    if model.declares.data == "bits":
        raise InvalidInputError(
            f"{type(model).__name__} is a model of zeros and ones: only counts can be over-dispersed."
        )
    data = model.checked_data(X, caller="dispersion_test", integers=True)
    trained = model.was_fitted_to(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyRowsWarning)  # they have no expected values to vary around
        activations = model.training_activations(X) if trained else model.transform(X)
    n_rows = data.shape[0]
    most = min(n_rows, max(_FEWEST_ROWS, _MOST_CELLS // data.shape[1]))
    rows = np.unique(np.linspace(0, n_rows - 1, most).astype(np.int64))
    counts = data.to_scipy()[rows].toarray().astype(np.float64)
    seen = ~data.missing_matrix()[rows].toarray()
    own, parts = np.ascontiguousarray(activations[rows]), model.components_.T
    means = np.where(seen, np.maximum(model.expected(own), 0.0), 0.0)
    with one_blas_thread():
        leverages = leverages_of(means, own, parts)
        if trained and rows.size >= _MOST_SHARE * n_rows:
            # Rows that are not looked at tell about the parts, too.
            of_parts = leverages_of(means.T, parts, own).T * (rows.size / n_rows)
            leverages += of_parts - leverages * of_parts
    held = means > 0
    return dispersion_of(counts[held], means[held], leverages[held])
