"""Checkpoints: a run saved on disk, which resumes as if it had never stopped."""

from __future__ import annotations

import dataclasses
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from partwise._version import __version__
from partwise.core.keys import Key
from partwise.core.result import Trace
from partwise.core.state import Layout, fingerprint, state_from_arrays, state_to_arrays
from partwise.errors import CheckpointWarning, FileFormatError, InvalidInputError
from partwise.io.arrays import load_arrays, save_arrays

State = TypeVar("State")

_KIND = "partwise checkpoint"
_VERSION = 1
_STATE, _TRACE = "state/", "trace/"


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a run is written to disk. It is also written when the run ends, even by Ctrl-C.

    The file carries the version of partwise and that of the algorithm. A run is resumed only by the same version of the
    algorithm, which gives the same result.

    Parameters
    ----------
    path
        The file. Each write replaces it as a whole.
    iterations
        Write every this many iterations.
    seconds
        Write when this many seconds have passed since the last write. Without either, every 60 seconds.
    until_done
        Do not write when the run ends by itself. The caller then removes the file, which was only needed in case the
        run is killed.
    announced
        Called with the path after the first write.

    Examples
    --------
    >>> Checkpoint("fit.checkpoint", iterations=100).iterations
    100
    """

    path: str | os.PathLike[str]
    iterations: int | None = None
    seconds: float | None = None
    until_done: bool = False
    announced: Callable[[str], object] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.iterations is not None and self.iterations < 1:
            raise InvalidInputError(f"checkpoint: iterations must be at least 1, got {self.iterations}.")
        if self.seconds is not None and not self.seconds >= 0:
            raise InvalidInputError(f"checkpoint: seconds must not be negative, got {self.seconds}.")
        if self.iterations is None and self.seconds is None:
            object.__setattr__(self, "seconds", 60.0)


@dataclass(frozen=True)
class Identity:
    """Which fit a checkpoint belongs to: the key, the algorithm with its parameters, and the data."""

    key: Key
    algorithm: str
    parameters: str
    data: str
    data_summary: str
    revision: int = 1

    @classmethod
    def of(cls, key: Key, algorithm: Any, data: Any) -> Identity:
        """The identity of a run."""
        name = f"{type(algorithm).__module__}.{type(algorithm).__qualname__}"
        revision = getattr(type(algorithm), "REVISION", 1)
        return cls(key, name, fingerprint(algorithm), fingerprint(data), _summary(data), revision)

    def refuse_other(self, stored: Identity, path: str | os.PathLike[str], written_by: str) -> None:
        """Raise if a checkpoint belongs to another fit. The message says what differs."""
        if stored.algorithm != self.algorithm:
            what, remedy = f"by {stored.algorithm}, and this fit runs {self.algorithm}", "use the same inference"
        elif stored.revision != self.revision:
            what = f"by revision {stored.revision} of {self.algorithm}, and this partwise has revision {self.revision}"
            remedy = f"resume with partwise {written_by}"
        elif stored.parameters != self.parameters:
            what, remedy = "with other parameters", "use the same ones"
        elif stored.data != self.data:
            what, remedy = f"for other data ({stored.data_summary}; now {self.data_summary})", "give the same data"
        elif stored.key != self.key:
            what, remedy = "with another seed (random_state=)", "give the same one"
        else:
            return
        raise InvalidInputError(
            f"cannot resume: the checkpoint {os.fspath(path)} was written {what}; {remedy}, or drop resume=True."
        )


@dataclass(frozen=True)
class Stored:
    """The content of a checkpoint file, before it is known to belong to this fit."""

    path: Path
    written_by: str
    identity: Identity
    trace: Trace
    arrays: dict[str, Any]
    layout: Layout

    def state(self, cls: type[State]) -> State:
        """The state, given its class."""
        try:
            return state_from_arrays(cls, self.arrays, self.layout)
        except ValueError as error:
            raise _damaged(self.path, str(error)) from error


class CheckpointWriter(Generic[State]):
    """Writes the checkpoints of one run when they are due.

    A write that fails (a full disk) gives a warning and does not end a fit of many hours. The file of the last
    successful write stays.

    Parameters
    ----------
    checkpoint
        Where and how often.
    identity
        The fit.
    """

    def __init__(self, checkpoint: Checkpoint, identity: Identity) -> None:
        if Path(checkpoint.path).is_dir():
            raise InvalidInputError(f"checkpoint: {os.fspath(checkpoint.path)} is a directory; name a file in it.")
        folder = Path(checkpoint.path).absolute().parent
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise InvalidInputError(f"checkpoint: cannot write to the folder {folder}; give a folder that exists.")
        self._checkpoint = checkpoint
        self._identity = identity
        self._written_at = time.monotonic()
        self._written_iteration = -1

    def due(self, iteration: int) -> bool:
        """Whether a checkpoint should be written after this iteration."""
        every, seconds = self._checkpoint.iterations, self._checkpoint.seconds
        return (every is not None and iteration % every == 0) or (
            seconds is not None and time.monotonic() - self._written_at >= seconds
        )

    def write(self, iteration: int, state: State, trace: Trace) -> None:
        """Write, unless this iteration has been written already."""
        if iteration == self._written_iteration:
            return
        arrays, layout = state_to_arrays(state)
        content = {_STATE + name: array for name, array in arrays.items()}
        content |= {_TRACE + name: array for name, array in trace.to_arrays().items()}
        metadata = {
            "kind": _KIND,
            "version": _VERSION,
            "partwise": __version__,
            "iteration": iteration,
            "identity": dataclasses.asdict(self._identity),
            "layout": layout,
            "columns": list(trace.keys()),
        }
        try:
            save_arrays(self._checkpoint.path, content, metadata)
        except OSError as error:
            path = os.fspath(self._checkpoint.path)
            message = f"the checkpoint {path} could not be written ({error}); the fit continues."
            warnings.warn(message, CheckpointWarning, stacklevel=2)
        else:
            if self._written_iteration < 0 and self._checkpoint.announced is not None:
                self._checkpoint.announced(os.fspath(self._checkpoint.path))
            self._written_iteration = iteration
        self._written_at = time.monotonic()

    def end(self, iteration: int, state: State, trace: Trace, *, done: bool) -> None:
        """Write the end of the run, unless it is done and the file was only needed in case the run is killed."""
        if not (done and self._checkpoint.until_done):
            self.write(iteration, state, trace)


def read_checkpoint(path: str | os.PathLike[str]) -> Stored:
    """Read a checkpoint file.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    FileFormatError
        The file is truncated, damaged or not a checkpoint.
    InvalidInputError
        There is no such file.
    """
    path = Path(path)
    try:
        arrays, metadata = load_arrays(path)
    except FileNotFoundError as error:
        raise InvalidInputError(f"cannot resume: there is no checkpoint {path}; start without resume.") from error
    if metadata.get("kind") != _KIND:
        raise FileFormatError(f"{path} is not a checkpoint of partwise; give a file written by a fit with checkpoints.")
    if metadata.get("version") != _VERSION:
        raise FileFormatError(
            f"{path} is a checkpoint of version {metadata.get('version')} and this partwise reads {_VERSION}; "
            "resume with the partwise that wrote it."
        )
    try:
        identity = dict(metadata["identity"])
        identity["key"] = Key(**identity["key"])
        trace = Trace.from_arrays({name: arrays[_TRACE + name] for name in metadata["columns"]})
        if not isinstance(metadata["layout"], dict) or trace["iteration"].tolist() != [*range(1, len(trace) + 1)]:
            raise ValueError("its trace or its layout are not whole")
        if len(trace) != metadata["iteration"]:
            raise ValueError("its trace does not end at its iteration")
        state = {name.removeprefix(_STATE): array for name, array in arrays.items() if name.startswith(_STATE)}
        version = str(metadata.get("partwise", "0.0"))
        return Stored(path, version, Identity(**identity), trace, state, metadata["layout"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, str(error)) from error


def _summary(data: Any) -> str:
    shape = getattr(data, "shape", None)
    if shape is None:
        return type(data).__name__
    text = " x ".join(str(size) for size in shape)
    nnz = getattr(data, "nnz", None)
    return text if nnz is None else f"{text} with {nnz} nonzeros"


def _damaged(path: Path, reason: str) -> FileFormatError:
    return FileFormatError(f"{path} is a damaged checkpoint ({reason}); resume from another one, or start over.")
