"""The fits of a comparison and their held-out data. Every result depends on its task and key alone."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from partwise.contract.declaration import Candidate
from partwise.contract.heldout import HiddenCells, ThinnedCounts
from partwise.core.data import BinaryMatrix, CountMatrix
from partwise.core.keys import Key
from partwise.likelihood.completion import split_tokens
from partwise.likelihood.problem import log_factorials
from partwise.metrics.coherence import coherence, diversity
from partwise.selection.list_scores import ListMetric
from partwise.selection.records import Evidence, Fit, NewRows, Task
from partwise.selection.standings import spread

N_FOLDS = 5
"""Tokens or cells are cut into this many parts. One is held out, so train and test are 0.8 and 0.2 of the data."""

# Largest number of held-out cells of counts: samplers draw every held-out cell, zeros included, in every sweep.
_MOST_CELLS = 100_000
# Document completion splits tokens with chain 0 of the same seed.
_FIRST_DIVISION = 1000
# Largest number of rows that stand for new ones: for some models each costs as much as a whole chain.
_MOST_NEW_ROWS = 500
# Standard error, in nats, of the likelihood of a new row: small compared with the differences between rows.
_ROW_ERROR = 0.3


def count_fold(data: CountMatrix, key: Key, restart: int, size: float = np.inf) -> ThinnedCounts:
    """Hold out one of five disjoint fifths of the tokens. Every five restarts, a new division begins.

    Under Poisson noise each token goes to a random fifth. A count with negative-binomial noise of size r is the sum of
    five independent counts with a fifth of its mean, each of size r / 5. Given the sum, each count takes a share of
    what is left, drawn from a beta distribution (beta-binomial thinning).

    Parameters
    ----------
    data
        All counts.
    key
        Key of the divisions.
    restart
        Number of the restart, from 0.
    size
        Size r of the noise; infinite = Poisson.
    """
    division, number = divmod(restart, N_FOLDS)
    key = key.for_chain(_FIRST_DIVISION + division)
    generator = key.for_stage("over-dispersed").generator()
    held = rest = data
    for fold in range(number + 1):
        left = N_FOLDS - fold
        if np.isinf(size):
            held, rest = split_tokens(rest, key.at(fold), 1.0 / left)
        else:
            counts = rest.values.astype(np.int64)
            share = generator.beta(size / N_FOLDS, (left - 1) * size / N_FOLDS, size=counts.size) if left > 1 else 1.0
            held = data.with_values(generator.binomial(counts, share))
            rest = data.with_values(counts - held.values)
    held_out = sp.csr_array(held.to_scipy().astype(np.int64))
    held_out.eliminate_zeros()
    train = sp.csr_array(data.to_scipy().astype(np.int64) - held_out)
    train.eliminate_zeros()
    kept = CountMatrix.store(train, data.missing_matrix(), data.row_labels, data.column_labels)
    return ThinnedCounts(kept, held_out, 1.0 / (N_FOLDS - 1.0), size)


def cell_fold(data: CountMatrix | BinaryMatrix, key: Key, restart: int) -> HiddenCells:
    """Hold out one of five disjoint fifths of the observed cells. Every five restarts, a new division begins.

    For counts it is a tenth: noisy counts say little, so a fit to four fifths of a small table could afford fewer parts
    than a fit to all of it. In large tables of counts, a fifth of some cells is held out. These are drawn by the totals
    of their rows and columns, whatever they contain: nearly all other cells are zeros that every model predicts.

    Parameters
    ----------
    data
        All counts or bits.
    key
        Key of the divisions.
    restart
        Number of the restart, from 0.
    """
    n_rows, n_columns = data.shape
    counted, large = isinstance(data, CountMatrix), n_rows * n_columns > _MOST_CELLS
    n_folds = 2 * N_FOLDS if counted and not large else N_FOLDS
    division, number = divmod(restart, n_folds)
    generator = key.for_chain(division).for_stage("cells").generator()
    if counted and large:
        drawn = [
            generator.choice(totals.size, _MOST_CELLS, p=totals / totals.sum())
            for totals in (data.row_sums, data.column_sums)
        ]
        cells = np.unique(drawn[0] * n_columns + drawn[1])
    else:
        cells = np.arange(n_rows * n_columns)
    own = cells[generator.integers(0, n_folds, size=cells.size, dtype=np.int8) == number]
    rows, columns = np.divmod(own, n_columns)
    missing = data.missing_matrix()
    seen = ~np.asarray(missing[rows, columns], dtype=bool).ravel()
    rows, columns = rows[seen], columns[seen]
    hidden = sp.csr_array((np.ones(rows.size, dtype=bool), (rows, columns)), shape=data.shape)
    values = sp.csr_array(data.to_scipy().astype(np.int64))
    held = np.asarray(values[rows, columns]).ravel()
    train = sp.csr_array(values - values.multiply(hidden))
    train.eliminate_zeros()
    absent = sp.csr_array(missing.astype(bool) + hidden)
    kind = CountMatrix if counted else BinaryMatrix
    kept = kind.store(train, absent, data.row_labels, data.column_labels)
    counts = held.astype(np.float64) if counted else None
    return HiddenCells(kept, rows.astype(np.int64), columns.astype(np.int64), held > 0, counts)


class StoppedError(Exception):
    """The comparison was interrupted, so the current fit is of no use."""


@dataclass(eq=False)
class Fitting:
    """The data of a comparison, and the fits to them.

    Parameters
    ----------
    data
        Checked counts or bits.
    candidates
        Candidates by name.
    key
        Key of all random numbers.
    size
        Size r of the noise for which counts are split; infinite = Poisson.
    full
        Whether to compute marginal likelihoods of new rows, too.
    metric
        Score for lists, instead of the likelihood of held-out data.
    stop
        Set if the comparison is interrupted.
    n_jobs
        Number of threads that a fit gets if no other fit is left to run.
    """

    data: CountMatrix | BinaryMatrix
    candidates: Mapping[str, Candidate]
    key: Key
    size: float = np.inf
    full: bool = False
    metric: ListMetric | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    n_jobs: int = field(default=1, kw_only=True)
    _folds: dict[int, ThinnedCounts | HiddenCells] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fold(self, restart: int) -> ThinnedCounts | HiddenCells:
        """Training and held-out data of a restart: the same for all models."""
        with self._lock:
            if restart not in self._folds:
                data = self.data
                if isinstance(data, CountMatrix) and not self.hides_cells:
                    self._folds[restart] = count_fold(data, self.key, restart, self.size)
                else:
                    self._folds[restart] = cell_fold(data, self.key, restart)
            return self._folds[restart]

    @property
    def hides_cells(self) -> bool:
        """Whether whole cells are held out: for bits, and for over-dispersed counts if all models accept missing cells.

        Lists of counts are scored by tokens, because otherwise most cells would be known to be empty.
        """
        if not isinstance(self.data, CountMatrix):
            return True
        if self.metric is not None:
            return False
        return not np.isinf(self.size) and all(one.declares.missing != "no" for one in self.candidates.values())

    def held_out_size(self, restart: int) -> float:
        """The divisor of a score: the number of held-out tokens or cells, or of rows with something to list."""
        fold = self.fold(restart)
        return fold.size if self.metric is None else max(float(self.metric.counted(fold).sum()), 1.0)

    def end(self) -> None:
        """Stop running fits: their results are no longer needed."""
        self.stop.set()

    def _fitted(self, task: Task, train: CountMatrix | BinaryMatrix) -> Any:
        """The model of a task, with its own seed for each restart."""
        candidate = self.candidates[task.model]
        stopped = (lambda *progress: self.stop.is_set(),)
        more: dict[str, Any] = {"n_jobs": self.n_jobs, "progress": False, "callbacks": stopped}
        if train.n_missing:
            more |= candidate.declares.missing_settings
        seed = int(self.key.for_stage("seeds").at(task.restart).generator().integers(2**32))
        model = candidate.build(task.rank, seed, **more).fit(train)
        if self.stop.is_set():
            raise StoppedError
        return model

    def fit(self, task: Task) -> Fit:
        """Fit a model to the training data of its restart, and score it on the held-out data."""
        start = time.perf_counter()
        fold = self.fold(task.restart)
        model = self._fitted(task, fold.train)
        rows = model.held_out_log_likelihood(fold) if self.metric is None else self.metric.of_model(model, fold)
        coherent = diverse = np.nan
        if isinstance(self.data, CountMatrix):
            values, diverse = coherence(model, fold.train.to_table()), diversity(model)
            if np.isfinite(values).any():
                coherent = float(values[np.isfinite(values)].mean())
        return Fit(
            *task,
            score=float(rows.sum()) / self.held_out_size(task.restart),
            n_active=model.n_active_components_,
            evidence=float(model.objective),
            coherence=coherent,
            diversity=diverse,
            status=model.status_.code,
            seconds=time.perf_counter() - start,
            rows=rows,
            components=model.components_[model.active_components_],
        )

    def score_new_rows(self, task: Task) -> NewRows:
        """Fit a model to all rows but a fifth (at most 500), and score it on these."""
        start, n_rows = time.perf_counter(), self.data.shape[0]
        order = self.key.for_stage("new rows").generator().permutation(n_rows)
        n_fresh = min(max(1, n_rows // N_FOLDS), _MOST_NEW_ROWS)
        fresh, others = (self.data.take(np.sort(rows)) for rows in (order[:n_fresh], order[n_fresh:]))
        model = self._fitted(task, others)
        completion = likelihood = (np.nan, np.nan)
        declared, counts, rows = model.declares, isinstance(self.data, CountMatrix), np.zeros(0)
        if declared.missing == "yes" or not self.data.n_missing:
            if counts:
                found = model.completion(fresh, random_state=self.key.seed)
                total, rows = float(found.tokens.sum()), found.values
                if total:
                    completion = found.per_token, spread(rows - found.per_token * found.tokens) / total
            elif declared.data == "bits":
                completion = (float(model.score(fresh)), np.nan)
            if counts and declared.marginal and self.full:
                likelihood = self._likelihood(model, fresh)
        return NewRows(*task, *completion, *likelihood, time.perf_counter() - start, rows)

    def _likelihood(self, model: Any, fresh: CountMatrix | BinaryMatrix) -> tuple[float, float]:
        """Marginal log-likelihood per token. Parts are mixed with a background, so that it is finite."""
        if not fresh.total:
            return np.nan, np.nan
        frequencies = self.data.column_sums + 0.01
        found = model.log_likelihood(
            fresh, std_error=_ROW_ERROR, random_state=self.key.seed, background=frequencies / frequencies.sum()
        )
        rows = found.values - (gammaln(fresh.row_sums + 1.0) - log_factorials(fresh))
        mean = float(rows.sum()) / fresh.total
        return mean, spread(rows - mean * fresh.row_sums) / fresh.total

    def evidence(self, task: Task) -> Evidence:
        """Log p(X) for a number of parts, for models that offer it. Learned priors are taken from a fit."""
        start = time.perf_counter()
        effort = self.candidates[task.model].declares.evidence or {}
        model = self._fitted(task, self.data.take(np.arange(self.data.shape[0])))
        value, std_error = model.log_evidence(self.data, random_state=self.key.seed, **effort)
        return Evidence(*task, value, std_error, time.perf_counter() - start)
