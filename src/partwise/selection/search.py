"""Which fits are done, and in which order: earlier fits decide, never the clock.

The order is fixed: rounds of fits, each decided by the rounds before. A limit on fits or time cuts it off somewhere.
The same number of fits gives the same result again, with any number of threads.
"""

import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from partwise.core.blas import one_blas_thread
from partwise.core.data import CountMatrix
from partwise.core.progress import say
from partwise.errors import EmptyRowsWarning, EngineError, InaccurateWarning, PartwiseError
from partwise.selection.candidates import coarse_ranks, default_ranks
from partwise.selection.fitting import Fitting
from partwise.selection.records import KINDS, Task, TaskRecords
from partwise.selection.standings import AS_GOOD, DISASTER, DISTINCT, Choice, Standings

# A model climbs coarse steps until this many of them brought no gain, or left it far behind the best model.
_PATIENCE = 2
# The gap to the best model closes fast if a step shrinks it below this share.
_CLOSING = 0.5
# Later models start at this share of the first model's best number of parts, if fewer parts did not help the first.
_BEGIN = 0.25
# Most tokens for which models that offer log p(X) compute it, for their best number of parts and its neighbours.
_MOST_TOKENS, _NEIGHBOURS = 20_000, 2
# New rows are scored if there are at least this many rows.
_FEWEST_ROWS = 10


@dataclass
class Limits:
    """When a search ends early.

    Attributes
    ----------
    fits
        Largest number of fits; None = no limit.
    seconds
        Start no fit that would end later, if it took as long as the longest so far; None = no limit.
    longest
        Seconds of the longest fit so far.
    """

    fits: int | None = None
    seconds: float | None = None
    longest: float = 0.0
    begun: float = field(default_factory=lambda: time.monotonic(), init=False)

    def reached(self, n_fits: int) -> bool:
        """Whether no further fit may start after this many; the first always may."""
        end = time.monotonic() - self.begun + self.longest
        late = n_fits > 0 and self.seconds is not None and end > self.seconds
        return late or (self.fits is not None and n_fits >= self.fits)


class Search:
    """Runs the fits of a comparison, several at a time.

    Parameters
    ----------
    work
        How to do a fit.
    kept
        Stored results of each kind; they are not computed again.
    limits
        When to end early.
    at_a_time
        Number of fits at a time.
    shown
        Whether to print a line about every fit that ends; None: on a terminal.
    """

    def __init__(
        self, work: Fitting, kept: Sequence[TaskRecords[Any]], *, limits: Limits, at_a_time: int, shown: bool | None
    ) -> None:
        self._work, self._limits, self._n_threads = work, limits, at_a_time
        self._shown = sys.stderr is not None and sys.stderr.isatty() if shown is None else shown
        functions: list[Callable[[Task], Any]] = [work.fit, work.score_new_rows, work.evidence]
        self._kinds = dict(zip(KINDS, zip(kept, functions, strict=True), strict=True))
        self._lock = threading.Lock()
        self._cheap_first = [one.name for one in sorted(work.candidates.values(), key=attrgetter("cost"))]
        self._smallest = {name: candidate.smallest for name, candidate in work.candidates.items()}
        self.left_out: dict[str, str] = {}
        self.done: list[tuple[str, Task]] = []
        self.stopped = ""

    def run(self, ranks: Sequence[int] | None, n_restarts: int, *, full: bool) -> Standings:
        """Run all rounds, or as many as the limits allow, and return the standings of the fitted candidates.

        Parameters
        ----------
        ranks
            Choices of K to try; None searches for the best.
        n_restarts
            Restarts of the candidates that the first one did not rule out.
        full
            Whether to try every number of parts and to compute all further measures of the models.
        """
        pool = ThreadPoolExecutor(self._n_threads, thread_name_prefix="partwise-compare")
        try:
            with warnings.catch_warnings():
                # Tables say how a fit ended, and give the standard error of log p(X). Holding out may leave rows empty.
                for category in (ConvergenceWarning, InaccurateWarning, EmptyRowsWarning):
                    warnings.simplefilter("ignore", category)
                for kind, tasks in self._rounds(ranks, n_restarts, full):
                    if not self._round(pool, kind, tasks):
                        break
        except KeyboardInterrupt:
            self._work.end()
            # Only the fits before the first one that is not done belong to the result.
            known = [task in self._kinds[kind][0].records or task.model in self.left_out for kind, task in self.done]
            del self.done[[*known, False].index(False) :]
            if not any(task in self._kinds["fit"][0].records for _, task in self.done):
                raise
            self.stopped = "interrupted"
        finally:
            self._work.end()
            pool.shutdown(wait=True, cancel_futures=True)
        standings = self._standings()
        if not standings.rows:
            raise PartwiseError("no model could be fitted: " + " ".join(dict.fromkeys(self.left_out.values())))
        return standings

    def found(self, kind: str) -> dict[Task, Any]:
        """Records of a kind (``"fit"``, ``"new rows"``, ``"evidence"``) that belong to the result, by task."""
        records = self._kinds[kind][0].records
        return {task: records[task] for of, task in sorted(self.done) if of == kind and task in records}

    def _rounds(self, ranks: Sequence[int] | None, n_restarts: int, full: bool) -> Iterator[tuple[str, list[Task]]]:
        """The work, round after round. The results of a round are known before the next round is requested."""
        shape = self._work.data.shape
        ladder = default_ranks(shape, further=True) if ranks is None else sorted(ranks)
        if ranks is not None or full:
            pairs = [(name, rank) for rank in ladder for name in self._cheap_first if rank >= self._smallest[name]]
            yield "fit", [Task(*pair, 0) for pair in pairs]
        else:
            yield from self._coarse(ladder)
            yield from self._refined(ladder)
        if not self._standings().rows:
            return
        promising = self._promising(full)
        for restart in range(1, n_restarts):
            yield "fit", [Task(*choice, restart) for choice in promising if choice.model not in self.left_out]
        standings = self._standings()
        close = {choice.model for choice in (standings.rows if full else promising)}
        best = [standings.best_of(name) for name in self._cheap_first if name in close and standings.ranks_of(name)]
        if self._work.metric is not None:
            return  # what follows has another scale
        if shape[0] >= _FEWEST_ROWS:
            yield "new rows", [Task(*choice, 0) for choice in best]
        data = self._work.data
        if full and isinstance(data, CountMatrix) and data.total <= _MOST_TOKENS and not data.n_missing:
            for name, center in best:
                if self._work.candidates[name].declares.evidence is not None:
                    near = [rank for rank in standings.ranks_of(name) if abs(rank - center) <= _NEIGHBOURS]
                    yield "evidence", [Task(name, rank, 0) for rank in reversed(near)]

    def _coarse(self, ladder: list[int]) -> Iterator[tuple[str, list[Task]]]:
        """The cheapest model climbs steps that double, then the others do if it is worth it."""
        steps, (scout, *others) = coarse_ranks(ladder), self._cheap_first
        yield from self._climb([scout], steps)
        standings = self._standings()
        if ranks := standings.ranks_of(scout):
            best = standings.best_of(scout)
            far = [rank for rank in ranks if standings.difference(best, Choice(scout, rank)).hopeless]
            least = max((rank for rank in far if rank < _BEGIN * best.rank), default=0)
            steps = [rank for rank in steps if rank > least]
        yield from self._climb(others, steps)

    def _climb(self, names: list[str], steps: list[int]) -> Iterator[tuple[str, list[Task]]]:
        """Each model continues while it gains, until it has lost at several steps."""
        idle, lost = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
        gaps: dict[str, float] = {}
        for rank in steps:
            climbing = [name for name in idle if rank >= self._smallest[name]]
            yield "fit", [Task(name, rank, 0) for name in climbing]
            standings = self._standings()
            here = [choice for choice in standings.rows if choice.rank == rank]
            leader = standings.leader(here) if here else None
            for name in climbing:
                now = Choice(name, rank)
                if leader is None or now not in here:
                    del idle[name]
                    continue
                before = [choice for choice in standings.rows if choice.model == name and choice.rank < rank]
                if before:
                    gain = standings.difference(now, standings.leader(before))
                    stuck = 1 + (gain.value < -min(DISTINCT * gain.std_error, DISASTER))
                    idle[name] = 0 if gain.value > gain.std_error else idle[name] + stuck
                # With too few parts, the model with the widest noise leads. A gap that closes fast says nothing yet.
                behind = standings.difference(leader, now)
                closing = behind.value < _CLOSING * gaps.get(name, 0.0)
                lost[name] = lost[name] + 1 if rank > 1 and behind.hopeless and not closing else 0
                gaps[name] = behind.value
                if idle[name] >= _PATIENCE or lost[name] >= _PATIENCE:
                    del idle[name]
            if not idle:
                return

    def _refined(self, ladder: list[int]) -> Iterator[tuple[str, list[Task]]]:
        """Halve the gaps around the best number of parts of each contender, and below the fewest that do as well."""
        while True:
            standings, tasks = self._standings(), []
            for name in self._contenders(standings):
                tried, best = standings.ranks_of(name), standings.best_of(name)
                fewest = next(
                    rank
                    for rank in tried
                    if (gap := standings.difference(best, Choice(name, rank))).value <= AS_GOOD * gap.std_error
                )
                edges = [0, *tried]
                at, below = edges.index(best.rank), edges.index(fewest)
                places = [at, below]
                if at + 1 < len(edges) and not self._falls(standings, best, edges[at - 1 : at + 2]):
                    places.append(at + 1)
                gaps = {tuple(edges[place - 1 : place + 1]) for place in places}
                for low, high in sorted(gaps):
                    between = [rank for rank in ladder if low < rank < high and rank >= self._smallest[name]]
                    tasks += [Task(name, between[len(between) // 2], 0)] if between else []
            if not tasks:
                return
            yield "fit", tasks

    @staticmethod
    def _falls(standings: Standings, best: Choice, around: list[int]) -> bool:
        """Whether the next number of parts is far worse than the best and the one before is not: look below only."""
        fewer, _, more = around
        far = [standings.difference(best, Choice(best.model, rank)).hopeless for rank in (fewer, more) if rank]
        return far == [False, True]

    def _contenders(self, standings: Standings) -> list[str]:
        """Models whose best score is close to the best of all."""
        best = {name: standings.best_of(name) for name in self._cheap_first if standings.ranks_of(name)}
        gaps = {name: standings.difference(standings.leader(best.values()), one) for name, one in best.items()}
        return [name for name, gap in gaps.items() if not gap.hopeless]

    def _promising(self, full: bool) -> list[Choice]:
        """Candidates that the first restart cannot distinguish from the best of all, at most two per model."""
        standings = self._standings()
        leader = standings.leader(standings.rows)
        found: list[Choice] = []
        for name in self._contenders(standings):
            close, seen = [], set()
            for choice in (Choice(name, rank) for rank in standings.ranks_of(name)):
                gap = standings.difference(leader, choice)
                n_active = self._kinds["fit"][0].records[Task(*choice, 0)].n_active
                # More parts with no more active ones are the same model.
                if gap.value <= DISTINCT * gap.std_error and n_active not in seen:
                    close.append((gap.value > AS_GOOD * gap.std_error, choice.rank, gap.value, choice))
                    seen.add(n_active)
            if close and not full:
                # the fewest parts that are as good as the best, and the best of the others
                fewest, *others = sorted(close)
                close = [fewest, *sorted(others, key=itemgetter(2))[:1]]
            found += sorted(one[-1] for one in close)
        return found

    def _standings(self) -> Standings:
        """Standings of the models that take part, from the fits that belong to the result."""
        fits, work = self.found("fit"), self._work
        sizes = {restart: work.held_out_size(restart) for restart in {task.restart for task in fits}}
        counted = {} if work.metric is None else {n: work.metric.counted(work.fold(n)) for n in sizes}
        return Standings.of(fits, sizes, [name for name in work.candidates if name not in self.left_out], counted)

    def _round(self, pool: ThreadPoolExecutor, kind: str, tasks: list[Task]) -> bool:
        """Do a round; False if a limit was reached first. A round of restarts counts only if it is complete."""
        first, waiting = len(self.done), list(tasks)
        running: set[Future[None]] = set()
        while waiting or running:
            while waiting and len(running) < self._n_threads:
                if self._limits.reached(len(self.done)):
                    self.stopped, waiting = "budget", []
                    break
                task = waiting.pop(0)
                self.done.append((kind, task))
                running.add(pool.submit(self._do, kind, task, len(waiting)))
            finished, running = wait(running, return_when=FIRST_COMPLETED) if running else (set(), set())
            for future in finished:
                future.result()
        if self.stopped and kind == "fit" and tasks and tasks[0].restart:
            # Only complete rounds of restarts belong to the result, although all fits count.
            self.done[first:] = [("dropped", task) for _, task in self.done[first:]]
        return not self.stopped

    def _do(self, kind: str, task: Task, n_waiting: int) -> None:
        """Do a task unless it is done. A model that fails is left out."""
        ledger, function = self._kinds[kind]
        if task in ledger.records or task.model in self.left_out:
            return
        try:
            with one_blas_thread():
                record = function(task)
        except EngineError:
            raise
        except (PartwiseError, MemoryError) as error:
            with self._lock:
                self.left_out[task.model] = " ".join(str(error).split()) or "there is not enough memory."
            return
        ledger.put(record)
        self._limits.longest = max(self._limits.longest, record.seconds)
        if self._shown:
            seconds = (time.monotonic() - self._limits.begun) / len(self.done) * n_waiting
            left = f", {n_waiting} of this round left, about {seconds:.0f} s" if n_waiting else ""
            say(f"{record} [fit {len(self.done)}{left}]")
