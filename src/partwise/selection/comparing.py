"""Score models and their number of parts on one scale, and recommend one."""

import operator
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from partwise._version import __version__
from partwise.core.data import BinaryMatrix, CountMatrix
from partwise.core.keys import Key, RandomState, key_from
from partwise.core.progress import compiling_notice
from partwise.engines import resolve_engine
from partwise.errors import InvalidInputError
from partwise.selection.candidates import chosen_candidates, too_large_for
from partwise.selection.comparison import Comparison
from partwise.selection.fitting import Fitting
from partwise.selection.list_scores import ListMetric
from partwise.selection.noise import found_noise
from partwise.selection.records import KINDS, TaskRecords, check_identity, stored_identity
from partwise.selection.search import Limits, Search
from partwise.selection.standings import RULES, Choice

_RESAMPLINGS = 100
_FEWEST_SENT = 8


def compare(
    X: Any,
    models: Any = None,
    ranks: Iterable[int] | None = None,
    *,
    kind: str | None = None,
    n_restarts: int = 3,
    rule: str = "simple",
    metric: str | None = None,
    effort: str = "quick",
    max_fits: int | None = None,
    max_seconds: float | None = None,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    engine: Any = None,
    output: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Recommend a model and its number of parts: fit candidates, and score them on data that they have not seen.

    What is held out depends on the data. Counts with Poisson noise: a random fifth of the tokens. Counts that vary
    more: a tenth of the cells (in tables with more than 100,000 cells, a fifth of some cells, drawn by row and column
    totals). Bits: a fifth of the cells. Each restart holds out other data and has another seed. These are the same for
    all models, so differences are paired row by row. Every model is scored by the likelihood of its own noise.

    Parameters
    ----------
    X
        Counts or bits, samples x features, of any accepted kind; NaN is missing.
    models
        Names (`partwise.selection.model_names`), unfitted estimators, or a mapping from names to estimators, simplest
        first; None = all models for this kind of data.
    ranks
        Choices of K to try, such as ``range(1, 9)``; all are tried. None: each model tries 1, 2, 4, 8 parts and so
        on while the score improves, up to one part per four rows. Then models that are close to the best try numbers
        around their own best.
    kind
        ``"counts"`` or ``"bits"``; None = bits if there are only zeros and ones.
    n_restarts
        Number of fits for each candidate that the first fit does not rule out.
    rule
        Which candidate is recommended. ``"best"``: the best prediction. ``"simple"``: the fewest parts (then the
        simplest model) of those at most one standard error worse than the best. ``"stable"``: the most parts that
        restarts agree on, of those at most two standard errors worse.
    metric
        ``"ndcg@20"``, ``"precision@20"`` or ``"recall@20"`` (or another length): score lists of that many features that
        are new to a row by what was held out of it, beside lists by popularity. None: held-out log-likelihood.
    effort
        ``"quick"``, or ``"full"``: try every number of parts for every model, restart all close candidates, and compute
        further measures of the models (log p(X), marginal likelihood of new rows).
    max_fits, max_seconds
        Start no fit after this many fits, and no fit that would end after this many seconds, if it took as long as the
        longest so far. Pass `Comparison.n_fits` as ``max_fits`` to repeat a result.
    random_state
        Seed: int, Generator or None.
    n_jobs
        Number of fits at a time, or of workers that ``engine="dask"`` starts. It does not change the result. None = 1
        fit, -1 = all cores.
    engine
        None or ``"local"``: threads on this machine. ``"dask"``, the address of a Dask scheduler, a
        ``distributed.Client`` or a cluster: each fit is a task for one thread of a worker, with the same result. If a
        worker dies, another one repeats its fit.
    output
        Folder for ``fits.csv``, which gets one line when a fit ends. An interrupted comparison continues from there,
        with the same result.
    progress
        None: print one line per fit on a terminal. True: always. False: never.

    Returns
    -------
    Comparison
        ``sentence``, ``recommended``, ``answers``, ``table()``, ``choose(model, rank)``, ``fit_best(X)``.

    Examples
    --------
    >>> from partwise.datasets import simulate_poisson
    >>> from partwise.selection import compare
    >>> X = simulate_poisson(60, 30, 3, random_state=0).table
    >>> found = compare(X, models=["poisson", "allocation"], ranks=[1, 2, 3, 4], random_state=0)
    >>> found.recommended.rank
    3
    >>> model = found.choose(model="poisson").fit_best(X)
    >>> model.components_.shape
    (3, 30)
    """
    _check_settings(rule, effort, n_restarts, max_fits, max_seconds)
    tried, limits = _checked_ranks(ranks), Limits(max_fits, max_seconds)
    lists = None if metric is None else ListMetric.of(metric)
    data = _checked_data(X, kind)
    kind = "counts" if isinstance(data, CountMatrix) else "bits"
    chosen = chosen_candidates(models, kind, missing=bool(data.n_missing))
    skipped = too_large_for(chosen, data.shape, data.total, data.nnz) if models is None else {}
    candidates = {candidate.name: candidate for candidate in chosen if candidate.name not in skipped}
    folder = None if output is None else Path(output)
    # without a seed, use that of the comparison in the folder
    stored = stored_identity(folder).get("seed") if folder is not None and random_state is None else None
    key = Key(stored) if isinstance(stored, int) else key_from(random_state)
    with compiling_notice(progress):
        noise, size = found_noise(data, key, n_jobs) if isinstance(data, CountMatrix) else (None, np.inf)
        settings = data, candidates, key, size, effort == "full", lists
        kept = _records(folder, settings)
        work, at_a_time = _work_on(resolve_engine(engine, n_jobs), settings)
        search = Search(work, kept, limits=limits, at_a_time=at_a_time, shown=progress)
        standings = search.run(tried, int(n_restarts), full=effort == "full")
    recommended, again = standings.recommended(rule), standings.resampled(key, _RESAMPLINGS, rule)
    return Comparison(
        recommended=recommended,
        choice=recommended,
        rank_share=float(np.mean([choice.rank == recommended.rank for choice in again])),
        model_share=float(np.mean([choice == recommended for choice in again])),
        rule=rule,
        fits=search.found("fit"),
        new_rows={task.model: found for task, found in search.found("new rows").items()},
        evidence={Choice(task.model, task.rank): found for task, found in search.found("evidence").items()},
        left_out={**skipped, **search.left_out},
        unit="token" if kind == "counts" else "cell",
        metric=lists,
        popularity={} if lists is None else {n: lists.of_popularity(work.fold(n)) for n in standings.sizes},
        noise=noise,
        hidden_cells=work.hides_cells,
        n_fits=len(search.done),
        stopped=search.stopped,
        standings=standings,
        candidates=candidates,
        seed=key.seed,
    )


def _records(folder: Path | None, settings: Any) -> tuple[TaskRecords[Any], ...]:
    """Earlier results, in a folder that holds this comparison and no other."""
    if folder is not None:
        data, candidates, key, size, _, lists = settings
        models = {
            name: {
                "estimator": one.estimator.__name__,
                **{part: repr(value) for part, value in {**one.settings, **one.effort}.items()},
            }
            for name, one in candidates.items()
        }
        noted = {"size of the noise": repr(float(size)), "metric": None if lists is None else str(lists)}
        known = {"data": data.fingerprint(), "seed": key.seed, "models": models, "version": __version__}
        check_identity(folder, {**known, **noted})
    return tuple(TaskRecords(*kind, folder) for kind in KINDS.values())


def _check_settings(rule: str, effort: str, n_restarts: int, max_fits: int | None, max_seconds: float | None) -> None:
    for name, value, allowed in (("rule", rule, tuple(RULES)), ("effort", effort, ("quick", "full"))):
        if value not in allowed:
            raise InvalidInputError(f"{name} must be one of {', '.join(allowed)}, got {value!r}.")
    for name, limit in (("n_restarts", n_restarts), ("max_fits", max_fits)):
        if limit is not None and limit < 1:
            raise InvalidInputError(f"{name} must be at least 1, got {limit}.")
    if max_seconds is not None and not max_seconds > 0:
        raise InvalidInputError(f"max_seconds must be positive, got {max_seconds}.")


def _work_on(engine: Any, settings: Any) -> tuple[Fitting, int]:
    """Where the fits of a comparison run, and how many are requested at a time."""
    if not hasattr(engine, "submit"):
        n_threads = getattr(engine, "n_threads", 1)
        return Fitting(*settings, n_jobs=n_threads), n_threads
    from partwise.selection.fitting_by_workers import FittingByWorkers

    # More than there are threads, so that a worker always finds the next fit, and a growing cluster has work.
    n_threads = sum(engine.client.nthreads().values())
    return FittingByWorkers(engine, *settings), max(_FEWEST_SENT, 2 * n_threads)


def _checked_ranks(ranks: Iterable[int] | None) -> list[int] | None:
    if ranks is None:
        return None
    try:
        tried = sorted({operator.index(rank) for rank in ranks})
    except TypeError:
        tried = []
    if not tried or tried[0] < 1:
        raise InvalidInputError(
            f"ranks must name at least one number of parts, each a whole number of at least 1, got {ranks!r}."
        )
    return tried


def _checked_data(X: Any, kind: str | None) -> CountMatrix | BinaryMatrix:
    if kind not in (None, "counts", "bits"):
        raise InvalidInputError(f"kind must be 'counts', 'bits' or None, got {kind!r}.")
    data: CountMatrix | BinaryMatrix
    if kind != "bits":
        data = CountMatrix.build(X, integers=True, caller="compare", allow_all_zero=False)
    if kind == "bits" or (kind is None and np.all(data.values == 1)):
        data = BinaryMatrix.build(X, caller="compare", allow_all_zero=False)
    if data.shape[0] < 2:
        raise InvalidInputError("X has one row: compare needs several, as standard errors are over rows.")
    return data
