"""The one run loop of the library: steps, traces, convergence checks, callbacks, checkpoints and Ctrl-C."""

import copy
import math
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol, TypeVar

import numpy as np

from partwise.core.blas import one_blas_thread
from partwise.core.checkpoint import Checkpoint, CheckpointWriter, Identity, Stored, read_checkpoint
from partwise.core.keys import Key
from partwise.core.progress import ProgressDisplay, compiling_notice
from partwise.core.result import FitResult, Status, Trace
from partwise.core.stopping import Callback, DeferredInterrupt, Rule, StopFit
from partwise.errors import DivergedError, InterruptedFitWarning, InvalidInputError
from partwise.io.atomic import FilePath

State = TypeVar("State")
Info = Mapping[str, float]
"""What an iteration reports: numbers by name, such as ``objective``."""


class Algorithm(Protocol[State]):
    """Inference as two functions. Everything that changes between iterations is in the state.

    A state is a dataclass that `partwise.core.state.state_to_arrays` can take apart. An algorithm keeps its parameters
    as fields and has no other memory, so a run can be resumed from its state.

    When a change alters what an algorithm computes, raise its class attribute ``REVISION`` (1 by default). Checkpoints
    of another revision are then refused, and the message names the version of partwise that can resume them.
    """

    def init(self, key: Key, data: Any) -> State:
        """The state before the first iteration; `key` is that of iteration 0."""

    def step(self, key: Key, data: Any, state: State) -> tuple[State, Mapping[str, float]]:
        """Do one iteration with the key of that iteration, and return what it reports.

        The step owns the state that it is given and may reuse its arrays. It may report what is maximised (a
        log-likelihood or bound) as ``"objective"``; leave the name out if it was not computed.
        """


def run(
    algorithm: Algorithm[State],
    data: Any,
    *,
    key: Key | None,
    max_iter: int,
    convergence: Rule | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    checkpoint: Checkpoint | None = None,
    resume_from: FilePath | None = None,
    initial_state: State | None = None,
    description: str = "fitting",
) -> FitResult[State]:
    """Run an algorithm until it converges, is stopped, or has done `max_iter` iterations.

    The first Ctrl-C lets the current iteration (or ``init``) finish, so the state is whole, and ends the run with the
    status ``"interrupted"``, an `InterruptedFitWarning` and, where checkpoints are on, a checkpoint. A second Ctrl-C
    raises ``KeyboardInterrupt`` at once. BLAS is held to one thread meanwhile.

    Parameters
    ----------
    algorithm
        ``init`` gets ``key.at(0)``, ``step`` of iteration i (from 1) gets ``key.at(i)``.
    data
        What the algorithm works on.
    key
        Address of all random numbers of the run. Only with `resume_from` it may be None: the key of the checkpoint.
    max_iter
        Iterations in all, those before a resume included. 0 gives the initial state.
    convergence
        When to stop early.
    callbacks
        Called in order after every iteration with ``(iteration, state, trace)``; True or `StopFit` stops the run.
    progress
        None: a bar if standard error is a terminal and the fit takes longer than a second. True: always. False: never.
    checkpoint
        Where and how often to write the run to disk.
    resume_from
        A checkpoint to continue from. The result is that of an uninterrupted run, bit for bit. It must be of the same
        data, algorithm, parameters and key. A run that had converged, or has `max_iter` iterations, is returned as it
        is; one that was interrupted or stopped goes on.
    initial_state
        Start from a copy of this state instead of ``init`` (a warm start).
    description
        What the progress bar says.

    Returns
    -------
    FitResult
        State, trace, status, number of iterations, draws.

    Raises
    ------
    InvalidInputError
        An argument cannot be used, or the checkpoint belongs to another fit.
    FileFormatError
        The file to resume from is not a whole checkpoint.
    DivergedError
        The algorithm reported an objective that is NaN or plus infinity.
    """
    if max_iter < 0:
        raise InvalidInputError(f"max_iter must not be negative, got {max_iter}.")
    for at, callback in enumerate(callbacks):
        if not callable(callback):
            raise InvalidInputError(f"callbacks[{at}] is {callback!r}, which cannot be called; pass functions.")
    key, stored, writer = _on_disk(algorithm, data, key, checkpoint, resume_from)
    trace = Trace() if stored is None else stored.trace
    iteration = len(trace)
    objectives = trace.columns["objective"]
    reason = None if convergence is None else convergence.check(trace)
    stopped: str | None = None
    with ExitStack() as context:
        interrupt = context.enter_context(DeferredInterrupt(notice=progress is not False))
        context.enter_context(one_blas_thread())
        context.enter_context(compiling_notice(progress))
        context.enter_context(ProgressDisplay(description, trace, max_iter, progress))
        began = time.perf_counter() - (trace.columns["elapsed"][-1] if iteration else 0.0)
        # A resumed run needs it to know the class of its state.
        state = algorithm.init(key.at(0), data) if initial_state is None else copy.deepcopy(initial_state)
        if stored is not None:
            state = stored.state(type(state))
        while reason is None and stopped is None and iteration < max_iter and not interrupt.requested:
            iteration += 1
            state, info = algorithm.step(key.at(iteration), data, state)
            trace.append(iteration, time.perf_counter() - began, info)
            if "objective" in info and not objectives[-1] < math.inf:
                raise DivergedError(
                    f"the objective became {objectives[-1]} at iteration {iteration} of {type(algorithm).__name__}: "
                    "look for extreme values in the data, or start from another random_state or init."
                )
            try:
                if convergence is not None:
                    reason = convergence.check(trace)
                stopped = _call(callbacks, iteration, state, trace)
                if writer is not None and writer.due(iteration):
                    writer.write(iteration, state, trace)
            except KeyboardInterrupt:
                # Between two steps the state is whole. Raised by a callback, or where no handler could be installed.
                if interrupt.requested:
                    raise
                interrupt.requested = True
        if writer is not None:
            writer.end(iteration, state, trace, done=not interrupt.requested)
    status = _status(trace, max_iter, reason, stopped, interrupt.requested, convergence, checkpoint)
    if interrupt.requested and interrupt.outermost:
        warnings.warn(status.message, InterruptedFitWarning, stacklevel=2)
    return FitResult(state, trace, status, iteration, getattr(state, "draws", None))


def _on_disk(
    algorithm: Algorithm[State], data: Any, key: Key | None, checkpoint: Checkpoint | None, resume: FilePath | None
) -> tuple[Key, Stored | None, CheckpointWriter[State] | None]:
    """The key of a run, the checkpoint of the same fit that it resumes from, and the writer of new checkpoints."""
    stored = None if resume is None else read_checkpoint(resume)
    if key is None:
        if stored is None:
            raise InvalidInputError("key may be None only together with resume_from.")
        key = stored.identity.key
    if checkpoint is None and stored is None:
        return key, None, None
    identity = Identity.of(key, algorithm, data)
    if stored is not None:
        identity.refuse_other(stored.identity, stored.path, stored.written_by)
    return key, stored, None if checkpoint is None else CheckpointWriter(checkpoint, identity)


def _call(callbacks: Sequence[Callback], iteration: int, state: Any, trace: Trace) -> str | None:
    """Call all callbacks, and return the reason of the first one that wants to stop."""
    stopped = None
    for callback in callbacks:
        try:
            answer = callback(iteration, state, trace)
        except StopFit as stop:
            reason = str(stop)
        else:
            if not (isinstance(answer, bool | np.bool_) and answer):
                continue
            reason = ""
        name = getattr(callback, "__name__", type(callback).__name__)
        stopped = stopped or reason or f"the callback {name} asked for it"
    return stopped


def _status(
    trace: Trace,
    max_iter: int,
    reason: str | None,
    stopped: str | None,
    interrupted: bool,
    convergence: Rule | None,
    checkpoint: Checkpoint | None,
) -> Status:
    after = f"after {len(trace)} iteration{'' if len(trace) == 1 else 's'}"
    onward = "fit again"
    if checkpoint is not None and (interrupted or not checkpoint.until_done):
        onward = f"resume from {os.fspath(checkpoint.path)}"
    if interrupted:
        return Status("interrupted", f"Interrupted {after}. You can use the fit so far; to finish it, {onward}.")
    if reason is not None:
        return Status("converged", f"Converged {after}: {reason}.")
    if stopped is not None:
        told = f"Stopped {after} because {stopped}. You can use the fit so far; to finish it, {onward}."
        return Status("stopped", told)
    if convergence is None:
        told = f"Ran the {len(trace)} iterations that you asked for: see trace_ to judge whether they are enough."
        return Status("max_iter", told)
    return Status("max_iter", f"Did not converge {after}: {convergence.advice(trace, max_iter, onward)}.")
