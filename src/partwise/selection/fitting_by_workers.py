"""The fits of a comparison on a cluster: each fit is a task of a worker, which reads the data from a shared folder."""

import shutil
import threading
import time
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from partwise.contract.declaration import Candidate
from partwise.core.blas import one_blas_thread
from partwise.core.data import BinaryMatrix, CountMatrix
from partwise.core.keys import Key
from partwise.engines.cluster import abandon
from partwise.errors import EngineError
from partwise.selection.fitting import Fitting, StoppedError
from partwise.selection.list_scores import ListMetric
from partwise.selection.records import Evidence, Fit, NewRows, Task
from partwise.storage.csr_folder import MappedCounts, open_data
from partwise.storage.writing import write_data

# Number of comparisons whose data and folds a worker keeps.
_MOST_KEPT = 2
_SECONDS_BETWEEN_LOOKS = 1.0

Result = TypeVar("Result")
Settings = tuple[dict[str, Candidate], Key, float, bool, ListMetric | None]

_kept: dict[str, Fitting] = {}
_lock = threading.Lock()


class FittingByWorkers(Fitting):
    """Fits on the workers of a cluster. If a worker dies, another one repeats its work.

    Parameters
    ----------
    engine
        A `partwise.engines.dask.DaskEngine`.
    data, settings
        As for `Fitting`: candidates, key, size, full, metric.
    """

    def __init__(self, engine: Any, data: CountMatrix | BinaryMatrix, *settings: Any) -> None:
        super().__init__(data, *settings)
        self._engine = engine
        self._name = uuid.uuid4().hex
        self._folder: Path = engine.folder / f"compare-{self._name}"
        self._under_way: set[Any] = set()
        try:
            self._folder.mkdir()
            if isinstance(data, MappedCounts):
                self._data = data.folder.absolute()
            else:
                self._data = self._folder / "data"
                write_data(data, self._data)
        except OSError as error:
            raise EngineError(f"the data could not be written for the workers ({error}): free some space.") from error

    def fit(self, task: Task) -> Fit:
        """Fit and score, on a worker."""
        return self._done(Fitting.fit, task)

    def score_new_rows(self, task: Task) -> NewRows:
        """Fit to some rows and score others, on a worker."""
        return self._done(Fitting.score_new_rows, task)

    def evidence(self, task: Task) -> Evidence:
        """Log p(X), on a worker."""
        return self._done(Fitting.evidence, task)

    def end(self) -> None:
        """Stop running fits and remove the data. Fits notice that the data are gone, and end."""
        super().end()
        shutil.rmtree(self._folder, ignore_errors=True)
        with self._lock:
            left = list(self._under_way)
        abandon(self._engine.client, left)

    def _done(self, function: Callable[[Fitting, Task], Result], task: Task) -> Result:
        if self.stop.is_set():
            raise StoppedError
        settings = dict(self.candidates), self.key, self.size, self.full, self.metric
        about = self._name, str(self._folder), str(self._data), settings
        future = self._engine.submit(done_by_a_worker, function, task, about)
        with self._lock:
            self._under_way.add(future)
        try:
            found: Result = self._result(future)
            return found
        finally:
            with self._lock:
                self._under_way.discard(future)

    def _result(self, future: Any) -> Any:
        from distributed import KilledWorker

        try:
            return self._engine.result(future)
        except EngineError as error:
            if self.stop.is_set():
                raise StoppedError from error
            if isinstance(error.__cause__, KilledWorker):
                raise MemoryError(
                    "workers died again and again on one fit, most often because they ran out of memory: give them"
                    " more."
                ) from error
            raise EngineError(
                "the Dask cluster has forgotten this comparison, because its scheduler was closed or restarted: start"
                " it again; a comparison with an output folder continues from there."
            ) from error


class _Abandoned(threading.Event):
    """Set when the folder of a comparison is gone."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder, self._looked = Path(folder), 0.0

    def is_set(self) -> bool:
        now = time.monotonic()
        if now - self._looked > _SECONDS_BETWEEN_LOOKS:
            self._looked = now
            if not self._folder.exists():
                self.set()
        return super().is_set()


def done_by_a_worker(
    function: Callable[[Fitting, Task], Result], task: Task, about: tuple[str, str, str, Settings]
) -> Result:
    """Call a function of `Fitting` for a comparison. A worker keeps the data and the folds of the latest ones.

    Parameters
    ----------
    function, task
        A method of `Fitting`, and its argument.
    about
        Name of the comparison, its folder, the folder of its data, and the other arguments of `Fitting`.
    """
    name, folder, data, settings = about
    with _lock:
        if name not in _kept:
            while len(_kept) >= _MOST_KEPT:
                del _kept[next(iter(_kept))]
            _kept[name] = Fitting(cast(CountMatrix | BinaryMatrix, open_data(data)), *settings, stop=_Abandoned(folder))
        work = _kept[name]
    # The record says how a fit ended.
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        return function(work, task)
