"""The noise of counts. It decides how counts are split into training and held-out counts, so it is measured first.

The test: do counts vary more around the expected values of a fitted model than Poisson counts do?
"""

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from partwise.contract.heldout import ThinnedCounts, poisson_rows
from partwise.core.blas import one_blas_thread
from partwise.core.data import CountMatrix
from partwise.core.keys import Key
from partwise.errors import EmptyRowsWarning, InvalidInputError
from partwise.metrics.dispersion import Dispersion, dispersion_of, leverages_of
from partwise.selection.candidates import candidates_of, coarse_ranks, default_ranks
from partwise.selection.fitting import count_fold

Fitter = Callable[[Any, int], Any]

# Number of cells, from evenly spaced rows, and of rows at least. Parts count only if this share of rows is examined.
_MOST_CELLS, _FEWEST_ROWS, _MOST_SHARE = 1_000_000, 20, 0.1


def dispersion_test(model: Any, X: Any) -> Dispersion:
    """Test whether counts vary around the expected values of a model as Poisson counts do.

    This is the score test against negative-binomial noise (Dean 1992). A fit is closer to its data than the truth is,
    so the test takes each cell's leverage into account: the share of its own noise that its expected value follows. A
    model with too few parts leaves structure behind, which counts as noise here.

    Parameters
    ----------
    model
        A fitted model of counts.
    X
        Counts, preferably the training data.

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
        warnings.simplefilter("ignore", EmptyRowsWarning)  # empty rows have no expected values to vary around
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
            # Rows that are not examined also give information about the parts.
            of_parts = leverages_of(means.T, parts, own).T * (rows.size / n_rows)
            leverages += of_parts - leverages * of_parts
    held = means > 0
    return dispersion_of(counts[held], means[held], leverages[held])


# Noise is measured on at most this many evenly spaced rows, with at most this many parts. Parts follow some of the
# noise, so there are few enough of them to keep at least this share of it.
_MOST_ROWS, _MOST_PARTS, _LEAST_KEPT = 1500, 40, 0.1
# Number of cells of simulated noise, zeros included. It is dense while it is drawn.
_MOST_DRAWN = 20_000_000
_LEAST_SIZE = 0.01
# Parts fitted to few counts predict zeros too confidently, so this share of the totals is mixed in to choose K.
_SMOOTHING = 0.1
# If counts vary too much, more parts are tried: this many times the best number, or this many.
_FURTHER, _MANY_PARTS = 2, 10


def found_noise(data: CountMatrix, key: Key, n_jobs: int | None = None) -> tuple[Dispersion, float]:
    """How counts vary around fits of the simplest model, and the noise size for which to split them.

    With too few parts structure counts as noise, with too many noise counts as structure. Under over-dispersion, plain
    thinning chooses too many parts rather than too few, so what remains is noise. If that is more than Poisson noise,
    the number of parts is chosen again with counts split for such noise, and the size is measured with that number.

    Parameters
    ----------
    data
        All counts.
    key
        Key of splits and fits.
    n_jobs
        Number of threads of a fit.
    """
    n_rows = min(data.shape[0], _MOST_ROWS, max(_FEWEST_ROWS, _MOST_DRAWN // data.shape[1]))
    rows = np.unique(np.linspace(0, data.shape[0] - 1, n_rows).astype(np.int64))
    some: CountMatrix = data.take(rows)
    ladder = [rank for rank in default_ranks(some.shape, further=True) if rank <= _MOST_PARTS]
    size = np.inf

    def fit(counts: Any, rank: int) -> Any:
        return candidates_of("counts")[0].build(rank, key.seed % 2**32, n_jobs=n_jobs, progress=False).fit(counts)

    with warnings.catch_warnings(), one_blas_thread():
        for category in (ConvergenceWarning, EmptyRowsWarning):
            warnings.simplefilter("ignore", category)
        for _ in range(2):
            best = _best_rank(count_fold(some, key, 0, size), ladder, fit)
            for rank in reversed([rank for rank in ladder if rank <= best]):
                model = fit(some, rank)
                found = dispersion_test(model, some)
                if found.kept >= _LEAST_KEPT:
                    break
            further = [rank for rank in ladder if best < rank <= max(_FURTHER * best, _MANY_PARTS)]
            if not found.poisson and further:
                found = _without_structure(some, model, found, further, fit, key)
            if found.poisson:
                return found, np.inf
            size = max(found.size, _LEAST_SIZE)
    return found, size


def _without_structure(
    data: CountMatrix, model: Any, found: Dispersion, ranks: list[int], fit: Fitter, key: Key
) -> Dispersion:
    """The noise left with more parts, if they find structure that the model missed; otherwise the noise found before.

    More parts follow noise, too. So counts are simulated around the model with the noise that was found. If more parts
    leave less than half as much excess in the data as in the simulated counts, the data have structure rather than
    noise.
    """
    means = model.expected(model.training_activations(data))
    generator = key.for_stage("over-dispersed").generator()
    drawn = generator.poisson(means * generator.gamma(found.size, 1.0 / found.size, means.shape))
    observed = np.where(data.missing_matrix().toarray(), 0, drawn)
    noisy = CountMatrix.store(sp.csr_array(observed), data.missing_matrix(), data.row_labels, data.column_labels)
    for rank in ranks:
        more = dispersion_test(fit(data, rank), data)
        if more.kept < _LEAST_KEPT:
            break
        if more.poisson and 2.0 * more.statistic < dispersion_test(fit(noisy, rank), noisy).statistic:
            return more
    return found


def _best_rank(fold: ThinnedCounts, ladder: list[int], fit: Fitter) -> int:
    """The number of parts that predicts held-out counts best: first coarse steps, then those between."""
    scores: dict[int, float] = {}
    tried = coarse_ranks(ladder)
    while tried:
        for rank in tried:
            scores[rank] = float(poisson_rows(fit(fold.train, rank), fold, _SMOOTHING).sum())
            if rank >= 4 * max(scores, key=scores.__getitem__):
                break  # two coarse steps beyond the best
        best, known = max(scores, key=scores.__getitem__), sorted(scores)
        at = known.index(best)
        gaps = [known[max(at - 1, 0)], best, known[min(at + 1, len(known) - 1)]]
        tried = [
            between[len(between) // 2]
            for low, high in itertools.pairwise(gaps)
            if (between := [rank for rank in ladder if low < rank < high])
        ]
    return best
