"""Count models that take batches: factors for each batch and feature, so that parts need not explain batches."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from partwise.contract.batch_labels import BatchPart, Labels, batch_labels, known_batches, parts_of_batches
from partwise.contract.batch_samples import SamplesOfBatches
from partwise.core.data import SparseData
from partwise.core.result import FitResult
from partwise.core.run import Algorithm
from partwise.core.stopping import Rule
from partwise.core.weights import CellWeights
from partwise.errors import InvalidInputError
from partwise.kernels.arrays import Floats
from partwise.passes.batches import BatchedAlgorithm, BatchPosterior

# This many samples are enough to see whether a part follows a batch.
_ENOUGH_ROWS = 2000


@dataclass
class _Fitting:
    """What a fit with batches needs while it runs; the base class does not know about batches."""

    batch: Any
    X: Any
    data: Any = None
    codes: NDArray[np.int32] | None = None
    posterior: BatchPosterior | None = None


@dataclass(eq=False, repr=False)
class BatchModel(SamplesOfBatches):
    """Base class of the count models whose `fit` takes batches: rate_nf = s_bf Σ_k h_nk w_fk for sample n in batch b.

    The factors s_bf have a gamma prior with mean 1 and estimated strength, so they stay at 1 where batches agree.
    """

    def fit(self, X: Any, y: Any = None, *, batch: Any = None, layer: str | None = None) -> Self:
        """Fit the parts.

        Parameters
        ----------
        X
            Data, samples x features: array, sparse matrix, frame, AnnData or `Table`. NaN is missing.
        y
            Ignored.
        batch
            The batch of each sample, or the name of an obs column of AnnData: each batch gets a factor for each
            feature, so that parts need not explain how batches differ. None = no batches.
        layer
            Layer of AnnData to take instead of its ``X``.
        """
        self._fitting = _Fitting(batch, X)
        try:
            super().fit(X, layer=layer)
            labels = known_batches(X, self.n_samples_seen_) if batch is None else None
            found = [] if labels is None else self._parts_of(self._fitting.data, labels)
            if found:
                told = f"{'; '.join(map(str, found))}: fit with batch= if that is not what you want."
                self.status_ = replace(self.status_, message=f"{self.status_.message} But {told}")
        finally:
            del self._fitting
        return self

    def fit_transform(self, X: Any, y: Any = None, *, batch: Any = None, layer: str | None = None) -> Floats:
        """Fit the parts, and find the activations of the same samples.

        Parameters
        ----------
        X, y, batch, layer
            As for `fit`.
        """
        return self.fit(X, batch=batch, layer=layer).transform(X, batch=batch, layer=layer)

    def _run(
        self, algorithm: Algorithm[Any], data: Any, *, max_iter: int, convergence: Rule | None = None
    ) -> FitResult[Any]:
        here = self._fitting
        here.data = data
        if here.batch is None:
            return super()._run(algorithm, data, max_iter=max_iter, convergence=convergence)
        names, codes = np.unique(batch_labels(here.batch, here.X, data.shape[0]), return_inverse=True)
        if names.size < 2:
            raise InvalidInputError(f"batch has the same label, {str(names[0])!r}, for all samples: leave batch out.")
        here.codes = codes.astype(np.int32)
        batched = BatchedAlgorithm(self._batchable(algorithm), here.codes, names.size, self._engine())
        result = super()._run(batched, data, max_iter=max_iter, convergence=convergence)
        here.posterior = result.state.batches
        self.batch_names_, self.batch_factors_ = names.astype(object), here.posterior.factors
        self.batch_strength_ = here.posterior.strength
        return replace(result, state=result.state.parts)

    def _batchable(self, algorithm: Any) -> Any:
        """The algorithm, or an error with a remedy if it does not support batches."""
        return algorithm

    def _weighted(self, data: Any) -> Any:
        """The training data with the fitted factors, for computations at the end of a fit."""
        codes = self._fitting.codes
        return data if codes is None else data.weighted(CellWeights(self.batch_factors_, codes))

    def _batch_bound(self) -> float:
        """What batch factors add to the bound of the weighted data, at the end of a fit."""
        return 0.0 if self._fitting.posterior is None else self._fitting.posterior.constant

    # Parts that follow batches

    def parts_of_batches(self, X: Any, batch: Any) -> list[BatchPart]:
        """Parts that follow one batch. A fit with ``batch`` may not need them.

        Parameters
        ----------
        X
            Data as for `fit`.
        batch
            The batch of each sample, or the name of an obs column.

        Returns
        -------
        list of BatchPart
            Those whose shares have a squared correlation of at least 0.5 with membership in a batch.
        """
        data = self.checked_data(X, caller="parts_of_batches")
        return self._parts_of(data, batch_labels(batch, X, data.shape[0]))

    def _parts_of(self, data: SparseData, labels: Labels) -> list[BatchPart]:
        rows = np.unique(np.linspace(0, data.shape[0] - 1, _ENOUGH_ROWS).astype(np.intp))
        expected = self._activations(data.take(rows)) * self.components_.sum(axis=1)
        totals = expected.sum(axis=1, keepdims=True)
        shares = np.divide(expected, totals, out=np.zeros_like(expected), where=totals > 0)
        return parts_of_batches(shares, self.part_labels(), labels[rows])
