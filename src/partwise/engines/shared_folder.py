"""A folder that this process and all workers of a cluster see: data and pieces of arrays are written there."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
import weakref
from pathlib import Path
from typing import Any

from partwise.core.data import SparseData
from partwise.engines import worker_tasks as tasks
from partwise.errors import EngineError
from partwise.io.leftovers import sweep, temporary_name
from partwise.storage.csr_folder import MappedCounts
from partwise.storage.writing import write_data


class SharedFolder:
    """A new folder, removed in the end.

    Parameters
    ----------
    parent
        Where it is made; None = the temporary folder, which is right where all run on one machine.
    """

    def __init__(self, parent: str | os.PathLike[str] | None) -> None:
        within = Path(tempfile.gettempdir() if parent is None else parent).absolute()
        self.path = within / temporary_name()
        self._data: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        try:
            within.mkdir(parents=True, exist_ok=True)
            sweep(within)
            self.path.mkdir(mode=0o700)
        except OSError as error:
            raise EngineError(
                f"cannot write to the folder {within} ({error}); give one that can be written."
            ) from error
        self.remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def new_paths(self, number: int) -> list[Path]:
        """Names of files that do not exist yet."""
        name = uuid.uuid4().hex
        return [self.path / f"{name}-{at}.npy" for at in range(number)]

    def address_of(self, data: Any) -> tasks.DataAddress:
        """Where workers find the data, written on first use, and what they make of them."""
        if isinstance(data, MappedCounts):
            return str(data.folder.absolute()), data.checksum, None
        if isinstance(data, SparseData):
            data = data.unweighted
        if data not in self._data:
            folder = self.path / f"data-{uuid.uuid4().hex}"
            matrix: SparseData = data if isinstance(data, SparseData) else data.matrix
            try:
                write_data(matrix, folder)
            except OSError as error:
                raise EngineError(
                    f"the data could not be written for the workers ({error}): free some space."
                ) from error
            self._data[data] = str(folder)
            weakref.finalize(data, shutil.rmtree, folder, ignore_errors=True)
        return self._data[data], "", None if isinstance(data, SparseData) else type(data).of

    def check(self, client: Any) -> None:
        """Raise ``EngineError`` unless all workers see the folder."""
        probe = self.path / "probe"
        probe.touch()
        seen = client.run(tasks.can_read, str(probe))
        if not seen:
            raise EngineError("the Dask cluster has no workers: start some first.")
        blind = [worker for worker, sees in seen.items() if not sees]
        if blind:
            raise EngineError(
                f"the worker {blind[0]} does not see the folder {self.path}: give DaskEngine a folder that all share."
            )
