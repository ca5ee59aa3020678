"""Compare models and numbers of parts on one scale, and recommend one of each."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from partwise._version import __version__
from partwise.contract.declaration import Candidate
from partwise.core.coerce import as_table
from partwise.core.data import BinaryMatrix, CountMatrix
from partwise.core.keys import Key, RandomState, key_from
from partwise.core.progress import compiling_notice
from partwise.engines import resolve_engine
from partwise.errors import InvalidInputError
from partwise.selection.candidates import chosen_candidates, too_large_for
from partwise.selection.comparison import Comparison
from partwise.selection.fitting import Fitting
from partwise.selection.records import Evidence, Fit, NewRows, TaskRecords, check_identity, stored_identity
from partwise.selection.search import Search
from partwise.selection.standings import Choice

_RESAMPLINGS = 200
_FEWEST_SENT = 8


def compare(
    X: Any,
    models: Any = None,
    ranks: Iterable[int] | None = None,
    *,
    kind: str | None = None,
    n_restarts: int = 3,
    random_state: RandomState = None,
    n_jobs: int | None = None,
    engine: Any = None,
    output: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Which model, and how many parts? Fit the candidates, score them on data that they have not seen, recommend one.

    Counts are thinned: a fifth of the tokens, cell by cell, is held out and scored with the fitted rates scaled by 1/4.
    Of bits a fifth of the cells is. Each restart has another fifth and another seed, the same for all models, so that
    differences are paired row by row. The recommendation is the candidate with the fewest parts (then the simplest
    model) among those that are worse than the best by no more than one standard error of the difference.

    Parameters
    ----------
    X
        Counts or bits, samples x features, of any accepted kind; NaN is missing.
    models
        Names (`partwise.selection.model_names`), unfitted estimators, or a mapping of names and estimators, the
        simplest first; None = all of the kind.
    ranks
        Numbers of parts, all of which are tried; None goes up from 1, for each model as long as that gains, to
        at most one part for eight rows, and for the best models, if they still gain there, for four.
    kind
        ``"counts"`` or ``"bits"``; None = bits if there are only zeros and ones.
    n_restarts
        Fits of each candidate that the first one does not rule out.
    random_state
        Seed: int, Generator or None.
    n_jobs
        Fits at a time, or workers that ``engine="dask"`` starts; the result is the same for any number. None = 1 fit,
        -1 = all cores.
    engine
        None or ``"local"``: threads on this machine. ``"dask"``, the address of a Dask scheduler, a
        ``distributed.Client`` or a cluster: each fit is a task of a worker, on one thread, with the same bits. A fit
        whose worker dies is done again by another.
    output
        Folder for ``fits.csv``, a line a fit as it ends; a comparison that was cut off goes on from there, with the
        same result.
    progress
        None: a line a fit on a terminal; True: always; False: never.

    Returns
    -------
    Comparison
        ``sentence``, ``recommended``, ``table()``, ``choose(model, rank)``, ``fit_best(X)``.

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
    if n_restarts < 1:
        raise InvalidInputError(f"n_restarts must be at least 1, got {n_restarts}.")
    tried = _checked_ranks(ranks)
    data = _checked_data(X, kind)
    found_kind = "counts" if isinstance(data, CountMatrix) else "bits"
    chosen = chosen_candidates(models, found_kind, missing=bool(data.n_missing))
    skipped = too_large_for(chosen, data.shape) if models is None else {}
    candidates = {candidate.name: candidate for candidate in chosen if candidate.name not in skipped}
    folder = None if output is None else Path(output)
    key = _key(random_state, folder)
    if folder is not None:
        check_identity(folder, _identity(data, candidates, key))
    fits, fresh = TaskRecords(Fit, folder, "fits"), TaskRecords(NewRows, folder, "new_rows")
    evidence = TaskRecords(Evidence, folder, "evidence")
    where = resolve_engine(engine, n_jobs)
    work, at_a_time = _work_on(where, data, candidates, key)
    shown = sys.stderr is not None and sys.stderr.isatty() if progress is None else progress
    search = Search(work, fits, fresh, evidence, at_a_time=at_a_time, shown=shown)
    try:
        with compiling_notice(progress):
            standings = search.run(tried, int(n_restarts))
    finally:
        work.end()
    recommended = standings.recommended()
    again = standings.resampled(key, _RESAMPLINGS)
    return Comparison(
        recommended=recommended,
        choice=recommended,
        rank_share=float(np.mean([choice.rank == recommended.rank for choice in again])),
        model_share=float(np.mean([choice == recommended for choice in again])),
        fits={task: fit for task, fit in fits.records.items() if Choice(task.model, task.rank) in standings.rows},
        new_rows={
            name: fresh.records[task]
            for name in standings.order
            for task in fresh.records
            if (task.model, task.rank) == standings.best_of(name)
        },
        evidence={Choice(task.model, task.rank): found for task, found in sorted(evidence.records.items())},
        left_out={**skipped, **search.left_out},
        unit=work.unit,
        standings=standings,
        candidates=candidates,
        seed=key.seed,
    )


def _work_on(
    engine: Any, data: CountMatrix | BinaryMatrix, candidates: dict[str, Candidate], key: Key
) -> tuple[Fitting, int]:
    """The work of a comparison where an engine does it, and how many fits are asked for at a time."""
    if not hasattr(engine, "submit"):
        return Fitting(data, candidates, key), getattr(engine, "n_threads", 1)
    from partwise.selection.fitting_by_workers import FittingByWorkers

    # More than there are threads: a worker that ends a fit finds the next one, and a cluster that grows has work.
    n_threads = sum(engine.client.nthreads().values())
    return FittingByWorkers(data, candidates, key, engine), max(_FEWEST_SENT, 2 * n_threads)


def _checked_ranks(ranks: Iterable[int] | None) -> list[int] | None:
    if ranks is None:
        return None
    try:
        tried = sorted({operator.index(rank) for rank in ranks})
    except TypeError:
        tried = []
    if not tried or tried[0] < 1:
        raise InvalidInputError(f"ranks must be whole numbers of parts, at least one, each at least 1, got {ranks!r}.")
    return tried


def _checked_data(X: Any, kind: str | None) -> CountMatrix | BinaryMatrix:
    if kind not in (None, "counts", "bits"):
        raise InvalidInputError(f"kind must be 'counts', 'bits' or None, got {kind!r}.")
    data: CountMatrix | BinaryMatrix
    if kind is None:
        values = X.values if isinstance(X, CountMatrix | BinaryMatrix) else as_table(X).matrix.data
        kind = "bits" if bool(np.all((values == 0) | (values == 1) | np.isnan(values))) else "counts"
    if kind == "bits":
        data = BinaryMatrix.build(X, caller="compare", allow_all_zero=False)
    else:
        data = CountMatrix.build(X, integers=True, caller="compare", allow_all_zero=False)
    if data.shape[0] < 2:
        raise InvalidInputError("X has one row: compare needs several, as standard errors are over rows.")
    return data


def _key(random_state: RandomState, folder: Path | None) -> Key:
    """The key of the seed; without a seed, that of the comparison which a folder holds."""
    if random_state is None and folder is not None:
        stored = stored_identity(folder).get("seed")
        if isinstance(stored, int):
            return Key(stored)
    return key_from(random_state)


def _identity(data: CountMatrix | BinaryMatrix, candidates: dict[str, Candidate], key: Key) -> dict[str, Any]:
    models = {
        name: {
            "estimator": candidate.estimator.__name__,
            **{part: repr(value) for part, value in {**candidate.settings, **candidate.effort}.items()},
        }
        for name, candidate in candidates.items()
    }
    return {"data": data.fingerprint(), "seed": key.seed, "models": models, "version": __version__}
