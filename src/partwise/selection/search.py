"""Which fits are done, and in which order: by what earlier fits have shown, never by the clock."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TypeVar

from sklearn.exceptions import ConvergenceWarning

from partwise.core.blas import one_blas_thread
from partwise.core.data import CountMatrix
from partwise.core.progress import say
from partwise.errors import EngineError, InaccurateWarning, PartwiseError
from partwise.selection.candidates import default_ranks
from partwise.selection.fitting import Fitting
from partwise.selection.records import Evidence, Fit, Kept, NewRows, Task, TaskRecords
from partwise.selection.standings import DISTINCT, Choice, Standings

# Steps up the ladder without a gain after which a model goes no further.
_PATIENCE = 2
# Models that are worse than the best by more standard errors than this get no further restarts of several ranks.
_HOPELESS = 4.0
# Most tokens for which log p(X) is computed, of models that offer it.
_MOST_TOKENS = 20_000
# For its best number of parts, and so many more and fewer.
_NEIGHBOURS = 2
# New rows are scored where there are at least so many rows.
_FEWEST_ROWS = 10

Result = TypeVar("Result")


class Search:
    """Runs the fits of a comparison, several at a time.

    Parameters
    ----------
    work
        What a fit is.
    fits, new_rows, evidence
        Where results are kept; what is there already is not done again.
    at_a_time
        Fits at a time.
    shown
        Whether a line is written about every fit that ends.
    """

    def __init__(
        self,
        work: Fitting,
        fits: TaskRecords[Fit],
        new_rows: TaskRecords[NewRows],
        evidence: TaskRecords[Evidence],
        *,
        at_a_time: int,
        shown: bool,
    ) -> None:
        self._work, self._shown = work, shown
        self._fits, self._new_rows, self._evidence = fits, new_rows, evidence
        self._n_threads = at_a_time
        # The order in which several threads finish earliest.
        self._slow_first = sorted(work.candidates, key=lambda name: -work.candidates[name].cost)
        self._lock = threading.Lock()
        self.left_out: dict[str, str] = {}

    def run(self, ranks: Sequence[int] | None, n_restarts: int) -> Standings:
        """All stages; the standings of the candidates that were fitted.

        Parameters
        ----------
        ranks
            Numbers of parts; None climbs the ladder.
        n_restarts
            Restarts of the candidates that one of the first did not rule out.
        """
        with self._pool() as pool, warnings.catch_warnings():
            # Both are in the tables: how a fit ended, and the standard error of log p(X).
            for category in (ConvergenceWarning, InaccurateWarning):
                warnings.simplefilter("ignore", category)
            if ranks is None:
                self._climb_all(pool)
            else:
                tasks = [Task(name, rank, 0) for rank in sorted(ranks, reverse=True) for name in self._slow_first]
                self._all(
                    pool, self._fit, [task for task in tasks if task.rank >= self._work.candidates[task.model].smallest]
                )
            if not self._fits.records:
                raise PartwiseError("no model could be fitted: " + " ".join(dict.fromkeys(self.left_out.values())))
            further = [Task(*choice, restart) for choice in self._promising() for restart in range(1, n_restarts)]
            self._all(pool, self._fit, further)
            standings = self._standings()
            self._beside(pool, standings)
        return standings

    def _beside(self, pool: ThreadPoolExecutor, standings: Standings) -> None:
        """New rows, for each model at its best, and log p(X) where it is affordable."""
        models, data = self._taking_part(), self._work.data
        if data.shape[0] >= _FEWEST_ROWS:
            tasks = [Task(*standings.best_of(name), 0) for name in models]
            self._all(pool, lambda task: self._done(self._new_rows, task, self._work.score_new_rows), tasks)
        if isinstance(data, CountMatrix) and data.total <= _MOST_TOKENS and not data.n_missing:
            tasks = [
                Task(name, rank, 0)
                for name in models
                if self._work.declared(name).evidence is not None
                for rank in reversed(standings.ranks_of(name))
                if abs(rank - standings.best_of(name).rank) <= _NEIGHBOURS
            ]
            self._all(pool, lambda task: self._done(self._evidence, task, self._work.evidence), tasks)

    def _standings(self, *, first_restart: bool = False) -> Standings:
        """Standings of the models that take part, by all restarts or by the first one alone."""
        fits = {task: fit for task, fit in self._fits.records.items() if task.restart == 0 or not first_restart}
        sizes = {restart: self._work.fold(restart).size for restart in {task.restart for task in fits}}
        return Standings.of(fits, sizes, [name for name in self._work.candidates if name not in self.left_out])

    def _climb_all(self, pool: ThreadPoolExecutor) -> None:
        """Every model up the ladder; those that gain to its end, and are not hopeless, go on beyond it."""
        shape = self._work.data.shape
        ladder, further = default_ranks(shape), default_ranks(shape, further=True)
        self._all(pool, lambda name: self._climb(name, ladder), self._slow_first)
        if len(further) > len(ladder) and self._fits.records:
            standings = self._standings(first_restart=True)
            going_on = [name for name in self._taking_part() if not self._hopeless(standings, name)]
            self._all(pool, lambda name: self._climb(name, further), going_on)

    def _climb(self, name: str, ladder: Iterable[int]) -> None:
        """Go up the ladder as long as that gains more than a standard error."""
        best: Task | None = None
        idle = 0
        for rank in ladder:
            if rank < self._work.candidates[name].smallest:
                continue
            task = Task(name, rank, 0)
            if not self._fit(task):
                return
            if best is None or self._gains(task, best):
                best, idle = task, 0
            else:
                idle += 1
            if idle == _PATIENCE:
                return

    def _gains(self, task: Task, best: Task) -> bool:
        records = {known: self._fits.records[known] for known in (task, best)}
        standings = Standings.of(records, {0: self._work.fold(0).size}, [task.model])
        new, old = sorted(standings.rows, key=lambda choice: choice.rank, reverse=True)
        difference = standings.difference(new, old)
        return difference.value > difference.std_error

    def _promising(self) -> list[tuple[str, int]]:
        """Of each model the best candidate and those that the first restart cannot tell from it."""
        standings = self._standings(first_restart=True)
        found: list[tuple[str, int]] = []
        for name in self._taking_part():
            best, hopeless = standings.best_of(name), self._hopeless(standings, name)
            seen: set[int] = set()
            for rank in standings.ranks_of(name):
                gap = standings.difference(best, Choice(name, rank))
                n_active = self._fits.records[Task(name, rank, 0)].n_active
                # More parts of which no more are active are the same model.
                if gap.value <= (0.0 if hopeless else DISTINCT * gap.std_error) and n_active not in seen:
                    found.append((name, rank))
                    seen.add(n_active)
        return found

    @staticmethod
    def _hopeless(standings: Standings, name: str) -> bool:
        """Whether a model at its best is far behind the best of all."""
        leader = max(standings.rows, key=lambda choice: standings.score(choice)[0])
        behind = standings.difference(leader, standings.best_of(name))
        return behind.value > _HOPELESS * behind.std_error

    def _fit(self, task: Task) -> bool:
        """Do a fit unless it is done; whether the model takes part."""
        return self._done(self._fits, task, self._work.fit)

    def _done(self, ledger: TaskRecords[Kept], task: Task, function: Callable[[Task], Kept]) -> bool:
        if task in ledger.records:
            return True
        if task.model in self.left_out:
            return False
        try:
            with one_blas_thread():
                record = function(task)
        except EngineError:
            raise
        except (PartwiseError, MemoryError) as error:
            with self._lock:
                self.left_out[task.model] = " ".join(str(error).split()) or "there is not enough memory."
            return False
        ledger.put(record)
        if self._shown:
            say(str(record))
        return True

    def _taking_part(self) -> list[str]:
        return [name for name in self._slow_first if name not in self.left_out]

    @contextmanager
    def _pool(self) -> Iterator[ThreadPoolExecutor]:
        """Threads for fits; Ctrl-C, or an error, ends the fits at hand, which are then redone."""
        pool = ThreadPoolExecutor(self._n_threads, thread_name_prefix="partwise-compare")
        try:
            yield pool
        except BaseException:
            self._work.end()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _all(self, pool: ThreadPoolExecutor, function: Callable[[Result], object], items: Iterable[Result]) -> None:
        futures: list[Future[object]] = [pool.submit(function, item) for item in items]
        for future in as_completed(futures):
            future.result()
