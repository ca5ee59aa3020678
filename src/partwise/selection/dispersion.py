"""Is this Poisson? How much counts vary around the expected values of a fitted model, and whether that is too much."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from partwise.core.blas import one_blas_thread
from partwise.errors import EmptyRowsWarning, InvalidInputError
from partwise.kernels.arrays import Floats

LEVEL = 0.05
"""Share of Poisson data that the test calls over-dispersed."""

# This many cells, of evenly spaced rows, are looked at, of at least this many rows; features only where most rows are.
_MOST_CELLS, _FEWEST_ROWS, _MOST_SHARE = 1_000_000, 20, 0.1
# An activation, or an entry of a part, below this share of its row does not use up a degree of freedom.
_NOTHING = 1e-6
_ROUNDS = 30


@dataclass(frozen=True)
class Dispersion:
    """How counts vary around expected values.

    Attributes
    ----------
    size
        Estimate of r in a variance of mean + mean² / r; infinite where counts vary no more than Poisson counts.
    statistic
        Excess of the squared deviations over those of Poisson counts, in standard errors.
    p_value
        Probability of such an excess, or a greater one, under Poisson noise.
    kept
        Share of what the test could know that is left after the fit, which follows noise with its parameters. Near 0
        the fit has as many parameters as there is noise, and the test cannot find any.
    """

    size: float
    statistic: float
    p_value: float
    kept: float = 1.0

    @property
    def poisson(self) -> bool:
        """Whether Poisson noise can explain the deviations, at a level of 5%."""
        return self.p_value > LEVEL

    def __str__(self) -> str:
        if self.poisson:
            return f"Counts vary no more than Poisson noise explains (p = {self.p_value:.2g})"
        told = "p < 0.0001" if self.p_value < 1e-4 else f"p = {self.p_value:.2g}"
        return f"Counts vary more than Poisson noise explains: variance = mean + mean² / {self.size:.2g} ({told})"


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
        leverages = _leverages(means, own, parts)
        if trained and rows.size >= _MOST_SHARE * n_rows:
            # Rows that are not looked at tell about the parts, too.
            of_parts = _leverages(means.T, parts, own).T * (rows.size / n_rows)
            leverages += of_parts - leverages * of_parts
    held = means > 0
    return _judged(counts[held], means[held], leverages[held])


def _judged(counts: Floats, means: Floats, leverages: Floats) -> Dispersion:
    squares = np.square(counts - means)
    excess = float(np.sum(squares - counts + leverages * means))
    variance = 2.0 * float(np.sum(np.square(means)))
    if not variance > 0:
        return Dispersion(np.inf, 0.0, 1.0)
    statistic = excess / np.sqrt(variance)
    # Third moments of (x - mean)² - x; the sum has a long right tail where counts are few (Edgeworth).
    skewness = float(np.sum(8.0 * means**3 + 4.0 * means**2)) / variance**1.5
    tail = norm.sf(statistic) + skewness / 6.0 * (statistic**2 - 1.0) * norm.pdf(statistic)
    # Moments for 1 / size, with the weights that are best for the size found so far.
    inverse, kept = 0.0, 1.0 - leverages
    for _ in range(_ROUNDS):
        weights = kept / np.square(1.0 + inverse * means)
        above = float(np.sum(weights * (squares - kept * means)))
        inverse = max(above / float(np.sum(weights * kept * np.square(means))), 0.0)
    size = 1.0 / inverse if inverse > 0 else np.inf
    left = 2.0 * float(np.sum(np.square(kept * means))) / variance
    return Dispersion(size, float(statistic), float(np.clip(tail, 0.0, 1.0)), left)


def _leverages(means: Floats, factor: Floats, other: Floats) -> Floats:
    """For each cell, the diagonal of the hat matrix of its row: Poisson regression of the row on the other factor."""
    found = np.zeros(means.shape)
    for n, row in enumerate(means):
        held, used = row > 0, factor[n] > _NOTHING * factor[n].sum()
        if not used.any():
            continue
        weighted = other[held][:, used] / np.sqrt(row[held])[:, None]
        basis = np.linalg.qr(weighted)[0]
        found[n, held] = np.square(basis).sum(axis=1)
    return np.asarray(np.minimum(found, 1.0))
