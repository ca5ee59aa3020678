"""The problem of all likelihood estimators (p(x) of rows of counts), its result, and code for averages over draws."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from partwise.core.data import CountMatrix, SparseData
from partwise.core.keys import Key, RandomState, key_from
from partwise.core.validation import positive_each, refuse_long_rows
from partwise.engines.base import Engine
from partwise.engines.blocks import Block, Made, first_tokens, row_blocks
from partwise.engines.local import LocalEngine, resolve_engine
from partwise.errors import InvalidInputError
from partwise.likelihood.averages import log_mean
from partwise.likelihood.kernels.rows import RowModel

Floats = NDArray[np.float64]
Kernel = Callable[..., object]
Jobs = int | None

_EXACT_SHARE = 0.1
_ROWS_AT_ONCE = 1024
_TOKENS_AT_ONCE = 4096
_MOST_LABELS = 2**16
_BYTES_OF_A_LABEL = 2
_TOKENS_OF_A_TASK = 2**14
_SECONDS_OF_A_WAIT = 0.5
_MOST_HOURS = 1.0


@dataclass(frozen=True)
class LogLikelihood:
    """Estimated log p(x) of each row, in nats.

    Attributes
    ----------
    values
        Log-likelihood of each row; -inf if the model makes a count of the row impossible.
    std_errors
        Standard error of each value; 0 if it is exact, infinite if nothing could be learned.
    ess
        Effective sample size of the particles or draws behind each value; inf if it is exact.
    pareto_k
        For `importance`: tail index of the weights. Above 0.7 neither value nor standard error is reliable.
    """

    values: Floats
    std_errors: Floats
    ess: Floats
    pareto_k: Floats | None = None

    @property
    def total(self) -> float:
        """Log-likelihood of all rows together."""
        return float(self.values.sum())

    @property
    def total_std_error(self) -> float:
        """Standard error of `total`: rows have independent streams."""
        return float(np.sqrt(np.sum(np.square(self.std_errors))))


@dataclass(frozen=True)
class LikelihoodProblem:
    """Rows of counts x_n and a model: h_nk ~ Gamma(a_k, rate b_k), x_nf ~ Poisson(Σ_k w_fk h_nk).

    With e_nk = Σ over observed f of w_fk, a token of feature f needs only q_fk = w_fk / (b_k + e_nk), and

        log p(x_n) = constant_n + log T[Π_f (Σ_k q_fk y_k)^x_f],  T: Π y_k^L_k -> Π Γ(a_k + L_k) / Γ(a_k)

    with constant_n = Σ_k a_k log(b_k / (b_k + e_nk)) - Σ_f log x_nf!.

    Attributes
    ----------
    data
        The rows.
    dictionary
        Features x parts.
    shape, rate
        a_k and b_k, one per part.
    inverse_rates
        1 / (b_k + e_nk): rows x parts, or a single row if nothing is missing.
    log_zero, constants
        log p(no counts in the observed cells), and constant_n.
    impossible
        Rows with a count of a feature that no part holds: p(x) = 0.
    engine, key
        Where rows are processed, and the key of all random numbers.
    first_row
        Position of the first row, if these are some rows of larger data.
    cause
        The beginning of a sentence about the first impossible row.
    """

    data: CountMatrix
    dictionary: Floats
    shape: Floats
    rate: Floats
    inverse_rates: Floats
    log_zero: Floats
    constants: Floats
    impossible: NDArray[np.bool_]
    engine: Engine
    key: Key
    first_row: int = 0
    cause: str = ""

    @classmethod
    def build(
        cls,
        X: Any,
        dictionary: Any,
        shape: Any,
        rate: Any,
        *,
        rng: RandomState = None,
        n_jobs: Jobs = 1,
        engine: Any = None,
    ) -> LikelihoodProblem:
        """Check the arguments of an estimator; a bad one raises one sentence."""
        data = CountMatrix.build(X, integers=True, caller="likelihood")
        weights = _dictionary(dictionary, data.shape[1])
        n_components = weights.shape[1]
        shapes = positive_each(shape, "shape", n_components)
        rates = positive_each(rate, "rate", n_components)
        exposure = np.atleast_2d(weights.sum(axis=0))
        if data.n_missing:
            exposure = _observed_exposure(data, weights)
        with np.errstate(over="ignore"):
            ratio = exposure / rates
        log_ratio = np.where(ratio < np.inf, np.log1p(ratio), np.log(np.maximum(exposure, 1.0)) - np.log(rates))
        log_zero = np.broadcast_to(-log_ratio @ shapes, (data.shape[0],))
        dead = ~np.any(weights > 0, axis=1)
        impossible, cause = np.zeros(data.shape[0], dtype=np.bool_), ""
        at = np.flatnonzero(dead[data.indices])
        if at.size:
            rows, names = np.repeat(np.arange(data.shape[0]), np.diff(data.indptr)), data.column_labels
            impossible[rows[at]] = True
            name = data.indices[at[0]] if names is None else repr(str(names[data.indices[at[0]]]))
            others = f" (one of {n} such rows)" if (n := np.count_nonzero(impossible)) > 1 else ""
            cause = f"Row {rows[at[0]]} of X{others} has a count of feature {name}, which no part holds"
            # Estimators see an empty row in their place, and `result` sets their value.
            data = data.only(~impossible[rows])
        return cls(
            data=data,
            dictionary=weights,
            shape=shapes,
            rate=rates,
            inverse_rates=1.0 / (rates + exposure),
            log_zero=log_zero,
            constants=log_zero - log_factorials(data),
            impossible=impossible,
            engine=resolve_engine(engine, n_jobs),
            key=key_from(rng),
            cause=cause,
        )

    @cached_property
    def model(self) -> RowModel:
        """The first arguments of all kernels. Counts have one type, so that each kernel compiles once."""
        data = self.data
        rows = data.indptr, data.indices, data.values.astype(np.int64)
        return RowModel(*rows, self.dictionary, self.inverse_rates, self.shape, self.rate, np.zeros(1, np.bool_))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.data.shape[0]

    def check_labels(self, caller: str, lengths: Floats, n_lanes: int) -> None:
        """Refuse more parts than labels of tokens can distinguish, and more tokens than fit into memory.

        Parameters
        ----------
        caller
            Who asks, for messages.
        lengths
            Number of tokens of each row that it visits; 0 for other rows.
        n_lanes
            Number of labels that it keeps per token.
        """
        if self.shape.size > _MOST_LABELS:
            raise InvalidInputError(f"{caller} takes at most {_MOST_LABELS} parts, got {self.shape.size}: use fewer.")
        refuse_long_rows(lengths, n_lanes * _BYTES_OF_A_LABEL, caller, self.first_row)

    def refuse_hopeless(self, caller: str, seconds: Floats) -> None:
        """Refuse work that would take more than an hour for one row, by its predicted cost."""
        hours = seconds / 3600.0
        n = int(np.argmax(hours)) if hours.size else 0
        if hours.size and hours[n] > _MOST_HOURS:
            raise InvalidInputError(
                f"Row {self.first_row + n} of X has {self.data.row_sums[n]:.3g} tokens: {caller} would take about"
                f" {hours[n]:.2g} hours for it. Use partwise.likelihood.importance or auto, whose cost grows with"
                " nonzeros."
            )

    def result(self, logs: Floats, std_errors: Floats, ess: Floats) -> LogLikelihood:
        """The result, from log T[...] of each row: add constants, and set impossible rows to -inf."""
        return LogLikelihood(
            np.where(self.impossible, -np.inf, self.constants + logs), np.where(self.impossible, 0.0, std_errors), ess
        )

    def estimated(self, estimate: Callable[..., tuple[Floats, Floats, Floats]], *settings: Any) -> Floats:
        """The result of ``estimate(problem, *settings)`` for each row, computed by the engine's workers if it has any.

        Parameters
        ----------
        estimate
            A function at module level that treats rows independently: logarithms, standard errors, sample sizes.
        settings
            Further arguments.

        Returns
        -------
        ndarray
            Three numbers per row, stacked.
        """
        if isinstance(self.engine, LocalEngine):
            return np.stack(estimate(self, *settings))
        # Constants are added when the rows are put together.
        none = np.zeros(0)
        empty = replace(self, data=self.data.rows(0, 0), inverse_rates=self.inverse_rates[:0], engine=LocalEngine())
        shared = estimate, settings, replace(empty, log_zero=none, constants=none, impossible=none > 0)
        blocks = self.row_blocks(_TOKENS_OF_A_TASK)
        _, (found,) = self.engine.map_rows(
            _estimate_rows, self.data, blocks, *shared, reads=[self.inverse_rates], makes=[Made((3,))]
        )
        return np.asarray(found).T

    def for_each(self, work: Callable[[Any], object], blocks: Sequence[Any]) -> None:
        """Call ``work(block)`` for every block, and let Ctrl-C end it within a second.

        Python sees Ctrl-C only between kernels, and a row of many tokens is one kernel. So the main thread waits while
        another thread works, and tells the kernels to return.
        """
        if threading.current_thread() is not threading.main_thread():
            self.engine.for_each(work, blocks)
            return
        failed: list[BaseException] = []

        def run() -> None:
            try:
                self.engine.for_each(work, blocks)
            except BaseException as error:
                failed.append(error)

        worker = threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True)
        stop = self.model.stop
        worker.start()
        try:
            while worker.is_alive():
                worker.join(_SECONDS_OF_A_WAIT)
        except BaseException:
            stop[0] = True
            worker.join()
            raise
        if failed:
            raise failed[0]

    def row_blocks(self, tokens: int = 4096, *most_rows: int) -> list[tuple[int, int]]:
        """Blocks of about this many tokens: the work for a row grows with its tokens, not with its nonzeros."""
        return row_blocks(first_tokens(self.data), tokens, *most_rows)


def _estimate_rows(
    block: Block,
    inverse_rates: Floats,
    out: Floats,
    estimate: Callable[..., tuple[Floats, Floats, Floats]],
    settings: tuple[Any, ...],
    empty: LikelihoodProblem,
) -> None:
    rows, own = block.data.rows(block.start, block.stop), block.own(inverse_rates)
    problem = replace(empty, data=rows, inverse_rates=own, first_row=block.first_row + block.start)
    out[block.rows] = np.column_stack(estimate(problem, *settings))


def log_factorials(data: SparseData) -> Floats:
    """Σ_f log x_nf! of each row."""
    rows = np.repeat(np.arange(data.shape[0]), np.diff(data.indptr))
    logs = gammaln(data.values.astype(np.float64) + 1.0)
    return np.bincount(rows, logs, data.shape[0]).astype(np.float64, copy=False)


def _observed_exposure(data: CountMatrix, weights: Floats) -> Floats:
    """Σ over observed f of w_fk of each row, to full precision."""
    totals = weights.sum(axis=0)
    exposure: Floats = totals - np.asarray(data.missing_matrix().astype(np.float64) @ weights)
    # If little is left of the total, the difference loses digits: sum the observed cells instead.
    inexact = np.flatnonzero((exposure < _EXACT_SHARE * totals).any(axis=1))
    for start in range(0, inexact.size, _ROWS_AT_ONCE):
        rows = inexact[start : start + _ROWS_AT_ONCE]
        exposure[rows] = ~data.missing_matrix()[rows].toarray() @ weights
    return exposure


def _dictionary(dictionary: Any, n_features: int) -> Floats:
    try:
        weights = np.array(dictionary, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("dictionary must be an array of numbers, features x parts.") from None
    if weights.ndim != 2 or weights.shape[0] != n_features or weights.shape[1] == 0:
        raise InvalidInputError(
            f"dictionary must be features x parts, with one row for each of the {n_features} columns of X, got shape"
            f" {weights.shape}; transpose components_."
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        f, k = np.argwhere(bad)[0]
        raise InvalidInputError(f"dictionary[{f}, {k}] = {weights[f, k]} must be a finite nonnegative number.")
    with np.errstate(over="ignore"):
        overflows = np.isinf(weights.sum(axis=0))
    if overflows.any():
        raise InvalidInputError(f"column {int(np.argmax(overflows))} of dictionary has no finite sum: scale it down.")
    return np.ascontiguousarray(weights)


def average_draws(
    problem: LikelihoodProblem, stage: str, n_draws: int, kernel: Kernel, *settings: object, log_normal: bool = False
) -> tuple[Floats, Floats, Floats]:
    """Log mean, standard error and effective sample size of each row, without storing the draws of all rows at once.

    All estimators that average independent draws use this: each is a kernel, its settings and this call.

    Parameters
    ----------
    problem
        The rows.
    stage
        Name of the estimator; it separates its random numbers from those of others.
    n_draws
        Number of draws per row, at least 2: the standard error comes from their spread.
    kernel
        ``kernel(problem.model, *settings, words, start, stop, logs)`` writes the log of each draw's estimate for these
        rows to ``logs`` (rows x draws), with the random numbers of the key ``words``.
    settings
        The estimator's own settings.
    log_normal
        Whether logarithms of draws are approximately normal: see `log_mean`.
    """
    require_at_least(2, n_draws=n_draws)
    words = problem.key.for_stage(stage).words
    values, errors, ess = np.empty((3, problem.n_rows))

    def one(block: tuple[int, int]) -> None:
        start, stop = block
        logs = np.empty((stop - start, n_draws))
        kernel(problem.model, *settings, words, start, stop, logs)
        values[start:stop], errors[start:stop], ess[start:stop] = log_mean(logs, log_normal=log_normal)

    problem.for_each(one, problem.row_blocks(_TOKENS_AT_ONCE, _ROWS_AT_ONCE))
    return values, errors, ess


def require_at_least(least: int, **settings: int) -> None:
    """Refuse settings below their smallest sensible value."""
    for name, value in settings.items():
        if value < least:
            raise InvalidInputError(f"{name} must be at least {least}, got {value}.")
